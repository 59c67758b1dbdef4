//! The address of a Redis as a URL, printed without its password.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::secret::MASK;
use super::text::{Written, visit_written};

/// `redis://[user[:password]@]host:port[/db]`, `rediss://…` for TLS, or `unix:///path` and `redis+unix:///path`.
///
/// [`expose`](Self::expose) is the whole of it; printed in any way, a password is `***`.
#[derive(Clone, PartialEq, Eq)]
pub struct RedisUrl(String);

const SCHEMES: [&str; 4] = ["redis", "rediss", "unix", "redis+unix"];

// === impl RedisUrl ===

impl RedisUrl {
    /// The URL with its password, for the client that connects.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Whether it asks for TLS.
    #[must_use]
    pub fn is_tls(&self) -> bool {
        self.0.starts_with("rediss://")
    }

    /// Whether a password is written in it.
    #[must_use]
    pub fn has_password(&self) -> bool {
        self.password().is_some()
    }

    /// Where the password stands.
    fn password(&self) -> Option<std::ops::Range<usize>> {
        let start = self.0.find("://")? + 3;
        let end = self.0[start..].rfind('@').map(|at| start + at)?;
        let colon = self.0[start..end].find(':')?;
        Some(start + colon + 1..end)
    }
}

impl fmt::Display for RedisUrl {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.password() {
            None => out.write_str(&self.0),
            Some(secret) => write!(out, "{}{MASK}{}", &self.0[..secret.start], &self.0[secret.end..]),
        }
    }
}

impl fmt::Debug for RedisUrl {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, out)
    }
}

impl FromStr for RedisUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // The text may hold a password: no refusal repeats it.
        let refusal = || format!("not the URL of a Redis; write {}", Self::EXPECTED);
        let (scheme, rest) = text.split_once("://").ok_or_else(refusal)?;
        if !SCHEMES.contains(&scheme) || rest.is_empty() || rest.contains(char::is_whitespace) {
            return Err(refusal());
        }
        let url = Self(text.to_owned());
        match url.password() {
            Some(secret) if &text[secret.clone()] == MASK => {
                Err("`***` stands for a password that was not printed; write the password itself".to_owned())
            }
            _ => Ok(url),
        }
    }
}

impl Written for RedisUrl {
    const EXPECTED: &'static str = "\"redis://host:port\", \"rediss://host:port\" (TLS) or \"unix:///path\"";
}

impl Serialize for RedisUrl {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for RedisUrl {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        visit_written(deserializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_kept_and_never_printed() {
        for (url, printed) in [
            ("redis://127.0.0.1:6379", "redis://127.0.0.1:6379"),
            ("redis://:hunter2@h:1/2", "redis://:***@h:1/2"),
            ("rediss://user:hun:t@er2@h:1", "rediss://user:***@h:1"),
            ("redis://user@h:1", "redis://user@h:1"),
            ("unix:///run/redis.sock", "unix:///run/redis.sock"),
        ] {
            let read: RedisUrl = url.parse().unwrap();
            assert_eq!(read.expose(), url);
            assert_eq!((read.to_string(), format!("{read:?}")), (printed.to_owned(), printed.to_owned()));
        }
    }

    #[test]
    fn what_is_no_redis_is_refused_without_repeating_it() {
        for text in
            ["", "localhost:6379", "http://:hunter2@h", "redis://", "redis://h:1 hunter2", "redis://u:***@h"]
        {
            let refusal = text.parse::<RedisUrl>().unwrap_err();
            assert!(!refusal.contains("hunter2"), "{refusal}");
        }
    }
}
