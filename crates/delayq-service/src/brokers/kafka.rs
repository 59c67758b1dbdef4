//! Access to a Kafka cluster.

#[cfg(feature = "kafka")]
mod publish;
#[cfg(feature = "kafka")]
mod topics;
#[cfg(feature = "kafka")]
mod words;

use crate::config::{Faults, HostPort, Login, PemFiles, Section, TlsOff};

#[cfg(feature = "kafka")]
pub use publish::{KafkaLetter, KafkaPublisher};
#[cfg(feature = "kafka")]
pub use topics::kafka_topic_exists;
#[cfg(feature = "kafka")]
pub use words::KafkaWords;

crate::section! {
    /// The address of a cluster, and the login.
    pub struct KafkaAccess {
        ..files: PemFiles,
        ..login: Login,
        /// `host:port` of some brokers; default `127.0.0.1:9092`.
        pub brokers: Vec<String> = vec!["127.0.0.1:9092".to_owned()],
        /// Uses TLS; default false.
        pub tls: bool = false,
        /// `PLAIN`, `SCRAM-SHA-256` or `SCRAM-SHA-512`, with user and password; unset: no login.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub mechanism: Option<String> = None,
    }
}

// === impl KafkaAccess ===

impl Section for KafkaAccess {
    fn validate(&self, at: &mut Faults) {
        let is_broker = |broker: &String| broker.parse::<HostPort>().is_ok();
        if self.brokers.is_empty() || !self.brokers.iter().all(is_broker) {
            at.refuse(
                "brokers",
                "expected \"host:port\" of at least one broker; passwords have their own keys",
            );
        }
        self.files.validate(self.tls_off(), at);
        self.login.validate_whole(at);
        let has_login = self.login != Login::default();
        match self.mechanism.as_deref() {
            None if has_login => at.contradiction(&["username", "mechanism"], "a user needs a `mechanism`"),
            Some("PLAIN" | "SCRAM-SHA-256" | "SCRAM-SHA-512") if !has_login => {
                let keys = ["mechanism", "username", "password"];
                at.contradiction(&keys, "a login needs `username` and `password`");
            }
            None | Some("PLAIN" | "SCRAM-SHA-256" | "SCRAM-SHA-512") => {}
            Some(_) => at.refuse("mechanism", "expected PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512"),
        }
    }
}

impl KafkaAccess {
    fn tls_off(&self) -> TlsOff {
        (!self.tls).then_some(("tls", "`tls` is false"))
    }

    /// Explains a failed connection, including that the broker may ask for a missing certificate.
    #[must_use]
    pub fn explain(&self, why: String) -> String {
        self.files.explain(self.tls_off(), why)
    }

    /// The client's settings; reads the password again.
    ///
    /// # Errors
    /// The password cannot be read.
    #[cfg(feature = "kafka")]
    pub fn settings(&self, client: &str) -> Result<rdkafka::ClientConfig, String> {
        use secrecy::ExposeSecret;
        let mut settings = rdkafka::ClientConfig::new();
        settings
            .set("bootstrap.servers", self.brokers.join(","))
            .set("client.id", client)
            .set("reconnect.backoff.max.ms", "1000")
            .set("security.protocol", self.protocol());
        let PemFiles { ca, cert, key } = &self.files;
        let locations =
            [("ssl.ca.location", ca), ("ssl.certificate.location", cert), ("ssl.key.location", key)];
        for (name, file) in locations {
            if let Some(file) = file {
                settings.set(name, file.display().to_string());
            }
        }
        if let (Some(mechanism), Some(username), Some(password)) =
            (&self.mechanism, &self.login.username, &self.login.password)
        {
            settings.set("sasl.mechanisms", mechanism).set("sasl.username", username);
            settings.set("sasl.password", password.reveal()?.expose_secret());
        }
        Ok(settings)
    }

    #[cfg(feature = "kafka")]
    const fn protocol(&self) -> &'static str {
        match (self.tls, self.mechanism.is_some()) {
            (false, false) => "plaintext",
            (true, false) => "ssl",
            (false, true) => "sasl_plaintext",
            (true, true) => "sasl_ssl",
        }
    }
}

/// Checks that a text is a valid topic name, and not internal to the brokers like `__consumer_offsets`.
///
/// # Errors
/// Why the name is refused.
pub fn kafka_topic(text: &str) -> Result<(), String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    if !(1..=249).contains(&text.len()) || !text.chars().all(plain) || text == "." || text == ".." {
        return Err(format!("`{text}` is not the name of a topic"));
    }
    if text.starts_with("__") {
        return Err(format!(
            "the topic `{text}` is internal: topics that begin with __ accept no deliveries"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broker_is_a_host_with_a_port_and_nothing_that_would_be_ignored() {
        for (broker, expected) in [
            ("h:9092", true),
            ("[::1]:9092", true),
            ("h", false),
            ("SASL_SSL://h:9092", false),
            ("h:9092/x", false),
            ("h:9092?acks=0", false),
            ("user@h:9092", false),
        ] {
            let mut at = Faults::default();
            KafkaAccess { brokers: vec![broker.to_owned()], ..KafkaAccess::default() }.validate(&mut at);
            assert_eq!(at.into_sentences().is_empty(), expected, "{broker}");
        }
    }

    #[test]
    fn a_topic_is_plain_and_not_internal() {
        for (text, expected) in [
            ("a", true),
            ("_schemas.v1-x", true),
            ("", false),
            ("..", false),
            ("a b", false),
            ("__consumer_offsets", false),
            ("__transaction_state", false),
        ] {
            assert_eq!(kafka_topic(text).is_ok(), expected, "{text}");
        }
    }
}
