//! `[outbox]`: the table of a database in which producers ask for writes within business transactions.

use delayq_service::config::{Faults, HumanDuration, PemFiles, Secret, Section, TlsOff};

delayq_service::section! {
    /// `[outbox]`: the database whose outbox the compensator carries out.
    pub struct OutboxConfig {
        ..files: PemFiles,
        /// `postgres://user@host/database` or `mysql://user@host/database`; unset: no outbox. A secret, because a URL may hold
        /// the password.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub url: Option<Secret> = None,
        /// Password; unset: the one in `url`, else none. A file is read again for each connection.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub password: Option<Secret> = None,
        /// Uses TLS, and checks the server's certificate; default false.
        pub tls: bool = false,
        /// The schema of the tables in PostgreSQL: 1 to 63 of a-z, 0-9 and _; default `public`.
        pub schema: String = "public".to_owned(),
        /// Maximum number of rows in one transaction: 1 to 10000; default 1000.
        pub batch: u16 = 1000,
        /// Interval between polls of an empty outbox, each a small query. 10 ms to 1 m; default 100 ms. Bounds the wait of a
        /// row.
        pub poll_interval: HumanDuration = HumanDuration::from_millis(100),
        /// Longest time for a batch, including calls to Redis: 1 s to 5 m; default 15 s. The database ends a transaction that
        /// waits for twice as long.
        pub deadline: HumanDuration = HumanDuration::from_secs(15),
        /// Shortest time between two truncations, so that the tables keep rows for up to twice as long: 1 s to 30 days; default
        /// 1 m. PostgreSQL only.
        pub rotate_every: HumanDuration = HumanDuration::from_secs(60),
        /// Time for which settled rows are kept, for `delayq outbox reconcile`: up to 365 days; default 0 s. PostgreSQL only:
        /// MySQL's settled rows are deleted at once.
        pub keep: HumanDuration = HumanDuration::from_secs(0),
    }
}

// === impl OutboxConfig ===

impl OutboxConfig {
    fn tls_off(&self) -> TlsOff {
        (!self.tls).then_some(("tls", "`tls` is false"))
    }
}

impl Section for OutboxConfig {
    fn validate(&self, at: &mut Faults) {
        at.secret("url", self.url.as_ref());
        at.secret("password", self.password.as_ref());
        self.files.validate(self.tls_off(), at);
        if !is_name(&self.schema) {
            at.refuse("schema", "expected 1 to 63 of a-z, 0-9 and _, not beginning with a digit");
        }
        at.range("batch", &self.batch, 1..=10_000);
        let (second, day) = (HumanDuration::from_secs(1), 86_400);
        at.range(
            "poll_interval",
            &self.poll_interval,
            HumanDuration::from_millis(10)..=HumanDuration::from_secs(60),
        );
        at.range("deadline", &self.deadline, second..=HumanDuration::from_secs(300));
        at.range("rotate_every", &self.rotate_every, second..=HumanDuration::from_secs(30 * day));
        at.range("keep", &self.keep, HumanDuration::from_secs(0)..=HumanDuration::from_secs(365 * day));
    }
}

/// True if a text is an identifier of SQL that needs no quotes.
fn is_name(text: &str) -> bool {
    let plain = |byte: u8| byte == b'_' || byte.is_ascii_lowercase() || byte.is_ascii_digit();
    (1..=63).contains(&text.len()) && text.bytes().all(plain) && !text.as_bytes()[0].is_ascii_digit()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_is_a_name_that_needs_no_quotes() {
        for (name, expected) in [
            ("public", true),
            ("_a1", true),
            ("", false),
            ("1a", false),
            ("a b", false),
            ("a\"; DROP TABLE orders", false),
            ("Public", false),
        ] {
            assert_eq!(is_name(name), expected, "{name}");
        }
        assert!(!is_name(&"a".repeat(64)));
    }
}
