//! Access to Amazon SQS, or another server of its protocol, such as ElasticMQ.

#[cfg(feature = "sqs")]
mod client;
#[cfg(feature = "sqs")]
mod form;
#[cfg(feature = "sqs")]
mod publish;
#[cfg(feature = "sqs")]
mod queue;
#[cfg(feature = "sqs")]
mod signing;

use crate::config::{Faults, PemFiles, Secret, Section, TlsOff};

#[cfg(feature = "sqs")]
pub use client::{SqsClient, SqsFault};
#[cfg(feature = "sqs")]
pub use form::{SqsContent, SqsRecord};
#[cfg(feature = "sqs")]
pub use publish::SqsLetter;
#[cfg(feature = "sqs")]
pub use queue::{SqsFailure, SqsQueue};

crate::section! {
    /// The address of a server, and the login.
    pub struct SqsAccess {
        ..files: PemFiles,
        /// The region, such as `eu-central-1`; default `us-east-1`.
        pub region: String = "us-east-1".to_owned(),
        /// `https://host:port` or `http://host:port` of another server of the protocol; unset: Amazon's of the region.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub endpoint: Option<String> = None,
        /// The id of an access key; unset: the credentials of the environment, as Amazon's own tools find them.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub access_key: Option<String> = None,
        /// The secret of `access_key`. Read again after a refusal.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub secret_key: Option<Secret> = None,
        /// The session token of temporary credentials; unset: none. Read again after a refusal.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub session_token: Option<Secret> = None,
    }
}

// === impl SqsAccess ===

impl SqsAccess {
    fn tls_off(&self) -> TlsOff {
        let plain = self.endpoint.as_ref().is_some_and(|endpoint| endpoint.starts_with("http://"));
        plain.then_some(("endpoint", "`endpoint` does not begin with https"))
    }

    /// The server.
    #[must_use]
    pub fn server(&self) -> String {
        let of_amazon = || format!("https://sqs.{}.amazonaws.com", self.region);
        self.endpoint.clone().unwrap_or_else(of_amazon)
    }
}

impl Section for SqsAccess {
    fn validate(&self, at: &mut Faults) {
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if self.region.is_empty() || !self.region.chars().all(plain) {
            at.refuse("region", "expected a region, such as \"eu-central-1\"");
        }
        if let Some(endpoint) = &self.endpoint {
            let host = endpoint.strip_prefix("https://").or_else(|| endpoint.strip_prefix("http://"));
            if host.is_none_or(|host| host.is_empty() || host.contains(['@', '/', '?', '#', ' '])) {
                at.refuse("endpoint", "expected \"https://host:port\", and secrets in keys of their own");
            }
        }
        at.secret("secret_key", self.secret_key.as_ref());
        at.secret("session_token", self.session_token.as_ref());
        at.together(("access_key", self.access_key.is_some()), ("secret_key", self.secret_key.is_some()));
        if self.session_token.is_some() && self.access_key.is_none() {
            at.contradiction(&["session_token", "access_key"], "a session token needs its `access_key`");
        }
        self.files.validate(self.tls_off(), at);
    }
}

/// Checks that a text is the name of a queue: of the account of the credentials.
///
/// # Errors
/// Why the name is refused.
pub fn sqs_queue(text: &str) -> Result<(), String> {
    let name = text.strip_suffix(FIFO).unwrap_or(text);
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    match (1..=80).contains(&text.len()) && !name.is_empty() && name.chars().all(plain) {
        true => Ok(()),
        false => Err(format!(
            "`{text}` is not the name of a queue: 1 to 80 of A-Z a-z 0-9 _ -, and .fifo at the end"
        )),
    }
}

/// The end of the name of a queue that keeps the order of its groups.
const FIFO: &str = ".fifo";

/// True if a queue keeps the order of its groups.
#[must_use]
pub fn is_sqs_fifo(queue: &str) -> bool {
    queue.ends_with(FIFO)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_is_a_plain_name_with_or_without_fifo() {
        for (text, expected) in [
            ("orders", true),
            ("Orders_1-x.fifo", true),
            ("", false),
            (".fifo", false),
            ("a.b", false),
            ("https://sqs.eu-central-1.amazonaws.com/1/orders", false),
        ] {
            assert_eq!(sqs_queue(text).is_ok(), expected, "{text}");
        }
        assert!(sqs_queue(&"a".repeat(81)).is_err());
    }

    #[test]
    fn an_endpoint_is_a_host_with_a_scheme_and_nothing_that_would_be_ignored() {
        for (endpoint, expected) in [
            (None, true),
            (Some("http://127.0.0.1:9324"), true),
            (Some("https://sqs.eu-central-1.amazonaws.com"), true),
            (Some("127.0.0.1:9324"), false),
            (Some("https://key:secret@host"), false),
            (Some("https://host/000000000000"), false),
        ] {
            let endpoint = endpoint.map(str::to_owned);
            let access = SqsAccess { endpoint: endpoint.clone(), ..SqsAccess::default() };
            let mut at = Faults::default();
            access.validate(&mut at);
            assert_eq!(at.into_sentences().is_empty(), expected, "{endpoint:?}");
        }
    }
}
