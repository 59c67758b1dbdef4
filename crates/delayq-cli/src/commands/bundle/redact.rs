//! Removes secrets from a text: every secret of the configuration, and any text that looks like a secret.

use delayq_service::config::{ExposeSecret as _, MASK, SecretString};
use percent_encoding::percent_decode_str;
use regex::Regex;

/// Shorter secrets are not searched for, because that would damage unrelated words. The packed configuration lacks
/// short secrets all the same.
const SHORTEST: usize = 4;

const NAME: &str = r"(?:(?:\b|_)pass|password|passwd|passphrase|secret(?:[-_][a-z_-]+)?|token|authorization|(?:api|access|private)[-_]?key)";

/// Patterns of secrets, with `NAME` for [`NAME`], and the replacement of each.
const PATTERNS: [(&str, &str); 8] = [
    (r"(?i)\b([a-z][a-z0-9+.-]*://[^\s/@:]*:)[^\s@/]+@", "${1}***@"),
    // Quoted values, up to the closing quote. JSON inside a JSON string has escaped quotes.
    (r#"(?i)(NAME\\"\s*:\s*\\")(?:[^\\"\n]|\\{2,}.|\\[^"\n])+"#, "${1}***"),
    (r#"(?i)(NAME["']?\s*[:=]\s*")(?:[^\\"\n]|\\.)+"#, "${1}***"),
    (r"(?i)(NAME[']?\s*[:=]\s*')[^'\n]+", "${1}***"),
    // Values without quotes become quoted, so that JSON stays JSON.
    (r#"(?i)(NAME\\"\s*:\s*)[^\s"'\\,;{}\[\]]+"#, r#"${1}\"***\""#),
    (r#"(?i)(NAME"\s*:\s*)[^\s"'\\,;{}\[\]]+"#, r#"${1}"***""#),
    (r#"(?i)(NAME'?\s*[:=]\s*(?:bearer\s+|basic\s+)?|\bbearer\s+)[^\s"'\\,;{}\[\]]+"#, "${1}***"),
    (r"-----BEGIN [A-Z ]*PRIVATE KEY-----(?s:.*?)(?:-----END [A-Z ]*PRIVATE KEY-----|\z)", "***"),
];

pub(super) struct Redactor {
    /// The longest first, because a secret may be a part of another secret.
    secrets: Vec<String>,
    patterns: Vec<(Regex, &'static str)>,
}

// === impl Redactor ===

impl Redactor {
    pub(super) fn new(secrets: &[SecretString], more: impl IntoIterator<Item = String>) -> Self {
        let plain = secrets.iter().map(|secret| secret.expose_secret().to_owned()).chain(more);
        let mut all: Vec<String> = Vec::new();
        for secret in plain {
            // A secret is searched for in three forms: percent-decoded, with the escapes of JSON, and plain.
            all.extend(percent_decode_str(&secret).decode_utf8().ok().map(Into::into));
            let json = serde_json::to_string(&secret).expect("a string serialises");
            all.push(json.trim_matches('"').to_owned());
            all.push(secret);
        }
        all.retain(|secret| secret.chars().count() >= SHORTEST);
        all.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        all.dedup();
        let compiled = |(pattern, with): (&str, _)| {
            (Regex::new(&pattern.replace("NAME", NAME)).expect("the patterns are sound"), with)
        };
        Self { secrets: all, patterns: PATTERNS.map(compiled).into() }
    }

    pub(super) fn redact(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for secret in &self.secrets {
            text = text.replace(secret, MASK);
        }
        for (pattern, with) in &self.patterns {
            text = pattern.replace_all(&text, *with).into_owned();
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_secrets_go_wherever_they_stand_the_longest_first() {
        let secrets = ["hunter2", "hunter2-and-more", "p%40ss", "abc", "quo\"te"].map(SecretString::from);
        let redactor = Redactor::new(&secrets, ["of-a-header".to_owned()]);
        let text = "x hunter2-and-more y hunter2z {\"m\":\"p@ss p%40ss quo\\\"te of-a-header\"} abc";
        assert_eq!(redactor.redact(text), "x *** y ***z {\"m\":\"*** *** *** ***\"} abc");
    }

    #[test]
    fn what_looks_like_a_secret_goes_too_and_nothing_else() {
        let redactor = Redactor::new(&[], []);
        for (text, redacted) in [
            ("redis://user:pass@h:1/0", "redis://user:***@h:1/0"),
            ("amqp://:pass@h and https://h:443/a@b", "amqp://:***@h and https://h:443/a@b"),
            ("password = \"x1\", next", "password = \"***\", next"),
            (r#"{"token":"x1","n":2}"#, r#"{"token":"***","n":2}"#),
            (r#"{\"secret\":\"x1\"}"#, r#"{\"secret\":\"***\"}"#),
            ("Authorization: Bearer x1.y2\nnext", "Authorization: Bearer ***\nnext"),
            ("sent bearer x1", "sent bearer ***"),
            ("AWS_SECRET_ACCESS_KEY=x1/y2 next", "AWS_SECRET_ACCESS_KEY=*** next"),
            ("db_pass=x1 and pass=y2; bypass=no", "db_pass=*** and pass=***; bypass=no"),
            ("password = \"two words\" next", "password = \"***\" next"),
            ("passphrase: 'two words' next", "passphrase: '***' next"),
            (r#"{"token":"a \"b\" c","n":"d"}"#, r#"{"token":"***","n":"d"}"#),
            (r#"{\"token\":\"two words\",\"n\":\"d\"}"#, r#"{\"token\":\"***\",\"n\":\"d\"}"#),
            (r#"{"token": 5, "secret":null}"#, r#"{"token": "***", "secret":"***"}"#),
            (r#"{\"token\":5}"#, r#"{\"token\":\"***\"}"#),
            (r#"{"secret":{"file":"/x"},"token":[]}"#, r#"{"secret":{"file":"/x"},"token":[]}"#),
            ("a\n-----BEGIN RSA PRIVATE KEY-----\nMII\n-----END RSA PRIVATE KEY-----\nb", "a\n***\nb"),
            ("the secret of the tokens is kept", "the secret of the tokens is kept"),
        ] {
            assert_eq!(redactor.redact(text), redacted);
        }
    }
}
