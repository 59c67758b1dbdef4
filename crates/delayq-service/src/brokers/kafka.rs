//! Access to a Kafka cluster.

#[cfg(feature = "kafka")]
mod publish;
#[cfg(feature = "kafka")]
mod topics;
#[cfg(feature = "kafka")]
mod words;

use crate::config::{Faults, HostPort, PemFiles, Secret};

#[cfg(feature = "kafka")]
pub use publish::{KafkaLetter, KafkaPublisher};
#[cfg(feature = "kafka")]
pub use topics::kafka_topic_exists;
#[cfg(feature = "kafka")]
pub use words::KafkaWords;

/// The keys for the address and login of a cluster.
#[derive(Clone, Copy, Debug)]
pub struct KafkaAccess<'c> {
    /// `host:port` of some brokers.
    pub brokers: &'c [String],
    /// The TLS files, and whether TLS is on.
    pub files: PemFiles<'c>,
    /// `PLAIN`, `SCRAM-SHA-256` or `SCRAM-SHA-512`; `None`: no login.
    pub mechanism: Option<&'c str>,
    /// User.
    pub username: Option<&'c str>,
    /// Password.
    pub password: Option<&'c Secret>,
}

// === impl KafkaAccess ===

impl KafkaAccess<'_> {
    /// Checks the keys, which have the names of the fields.
    pub fn validate(&self, at: &mut Faults) {
        let is_broker = |broker: &String| broker.parse::<HostPort>().is_ok();
        if self.brokers.is_empty() || !self.brokers.iter().all(is_broker) {
            at.refuse(
                "brokers",
                "expected \"host:port\" of at least one broker; passwords have their own keys",
            );
        }
        at.secret("password", self.password);
        self.files.validate(at);
        match self.mechanism {
            None if self.username.is_some() || self.password.is_some() => {
                at.contradiction(&["username", "mechanism"], "a user needs a `mechanism`");
            }
            Some("PLAIN" | "SCRAM-SHA-256" | "SCRAM-SHA-512")
                if self.username.is_none() || self.password.is_none() =>
            {
                at.contradiction(
                    &["mechanism", "username", "password"],
                    "a login needs `username` and `password`",
                );
            }
            None | Some("PLAIN" | "SCRAM-SHA-256" | "SCRAM-SHA-512") => {}
            Some(_) => at.refuse("mechanism", "expected PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512"),
        }
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
        let PemFiles { ca, cert, key, .. } = self.files;
        let locations =
            [("ssl.ca.location", ca), ("ssl.certificate.location", cert), ("ssl.key.location", key)];
        for (name, file) in locations {
            if let Some(file) = file {
                settings.set(name, file.display().to_string());
            }
        }
        if let (Some(mechanism), Some(username), Some(password)) =
            (self.mechanism, self.username, self.password)
        {
            settings.set("sasl.mechanisms", mechanism).set("sasl.username", username);
            settings.set("sasl.password", password.reveal()?.expose_secret());
        }
        Ok(settings)
    }

    #[cfg(feature = "kafka")]
    const fn protocol(&self) -> &'static str {
        match (self.files.off.is_none(), self.mechanism.is_some()) {
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
            let brokers = [broker.to_owned()];
            let files = PemFiles { ca: None, cert: None, key: None, off: None };
            let mut at = Faults::default();
            KafkaAccess { brokers: &brokers, files, mechanism: None, username: None, password: None }
                .validate(&mut at);
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
