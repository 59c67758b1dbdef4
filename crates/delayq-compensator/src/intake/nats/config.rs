//! `[intake.NAME.nats]`.

use delayq_service::brokers::{NatsAccess, nats_subject};
use delayq_service::config::{Faults, Section};

delayq_service::section! {
    /// `[intake.NAME.nats]`: a stream of a server or cluster.
    pub struct NatsIntakeConfig {
        ..access: NatsAccess,
        /// The stream; default `delayq`.
        pub stream: String = "delayq".to_owned(),
        /// The durable consumer that all compensators of this intake share; default `delayq`. Created if missing.
        pub consumer: String = "delayq".to_owned(),
        /// The subject of the stream that is read, wildcards included; unset: all of them.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub subject: Option<String> = None,
    }
}

// === impl NatsIntakeConfig ===

impl NatsIntakeConfig {
    /// Checks the subject of the dead records.
    pub(crate) fn check_dead(&self, dead: &str, at: &mut Faults) {
        if let (false, Err(why)) = (dead.is_empty(), nats_subject(dead)) {
            at.refuse("dead", why);
        } else if self.subject.as_deref().is_some_and(|subject| matches(subject, dead)) {
            at.contradiction(
                &["dead", "nats.subject"],
                "dead records would be taken in again in an endless \
                 loop",
            );
        }
    }
}

/// True if a subject with wildcards matches a plain subject.
fn matches(pattern: &str, subject: &str) -> bool {
    let (mut pattern, mut subject) = (pattern.split('.'), subject.split('.'));
    loop {
        match (pattern.next(), subject.next()) {
            (Some(">"), Some(_)) | (None, None) => return true,
            (Some(expected), Some(token)) if expected == "*" || expected == token => {}
            _ => return false,
        }
    }
}

impl Section for NatsIntakeConfig {
    fn validate(&self, at: &mut Faults) {
        self.access.validate(at);
        for (key, name) in [("stream", &self.stream), ("consumer", &self.consumer)] {
            let plain = |c: char| !c.is_whitespace() && !c.is_control() && !".*>/\\".contains(c);
            if name.is_empty() || !name.chars().all(plain) {
                at.refuse(key, "expected a name without spaces, dots, wildcards and slashes");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subject_matches_by_tokens() {
        for (pattern, subject, expected) in [
            ("a.b", "a.b", true),
            ("a.*", "a.b", true),
            ("a.>", "a.b.c", true),
            (">", "a", true),
            ("a.>", "a", false),
            ("a.*", "a.b.c", false),
            ("a.b", "a.c", false),
        ] {
            assert_eq!(matches(pattern, subject), expected, "{pattern} {subject}");
        }
    }
}
