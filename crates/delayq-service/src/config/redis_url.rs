//! The address of a Redis as a URL, printed without its password.

use super::secret::MASK;
use super::secrets;
use delayq::protocol::{AnyUrl, ClusterUrl, SentinelUrl, mask_query};
use secrecy::SecretString;
use std::fmt;
use std::str::FromStr;

/// `redis://[user[:password]@]host:port[/db]`, `rediss://…` for TLS, or `unix:///path` and `redis+unix:///path`. The
/// database may also be `?db=N`, and the login of a socket `&user=` and `&pass=`; every other parameter is refused. For a Redis
/// behind sentinels:
/// `redis+sentinel://[user[:password]@]host:port,…/service[?db=N]`, `rediss+sentinel://…` for TLS. For a Redis Cluster:
/// `redis+cluster://[user[:password]@]host:port,…`, `rediss+cluster://…` for TLS.
///
/// [`expose`](Self::expose) returns the whole URL; every printed form shows a password as `***`.
#[derive(Clone, PartialEq, Eq)]
pub struct RedisUrl(String);

// === impl RedisUrl ===

impl RedisUrl {
    /// The URL with its password, for the client that connects.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// True if the scheme asks for TLS.
    #[must_use]
    pub fn is_tls(&self) -> bool {
        self.0.starts_with("rediss")
    }

    /// True if the URL names sentinels.
    #[must_use]
    pub fn has_sentinels(&self) -> bool {
        SentinelUrl::is_meant_by(&self.0)
    }

    /// True if the URL names nodes of a Redis Cluster.
    #[must_use]
    pub fn is_cluster(&self) -> bool {
        ClusterUrl::is_meant_by(&self.0)
    }

    /// True if the URL contains a password.
    #[must_use]
    pub fn has_password(&self) -> bool {
        self.written_password().is_some()
    }

    /// The password, before the host or as a parameter.
    fn written_password(&self) -> Option<&str> {
        let before_host = self.password().map(|range| &self.0[range]);
        before_host.or_else(|| self.query().find(|(key, _)| *key == "pass").map(|(_, password)| password))
    }

    fn query(&self) -> impl Iterator<Item = (&str, &str)> {
        let query = self.0.split_once('?').map_or("", |(_, query)| query);
        query
            .split('&')
            .filter(|pair| !pair.is_empty())
            .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
    }

    fn unmasked(self) -> Result<Self, String> {
        match self.password() {
            Some(secret) if &self.0[secret.clone()] == MASK => {
                Err("`***` is a redacted password; write the password itself".to_owned())
            }
            _ => Ok(self),
        }
    }

    fn password(&self) -> Option<std::ops::Range<usize>> {
        let (scheme, _) = self.0.split_once("://")?;
        let start = scheme.len() + 3;
        let end = self.0[start..].rfind('@').map(|at| start + at).filter(|_| !scheme.ends_with("unix"))?;
        let colon = self.0[start..end].find(':')?;
        Some(start + colon + 1..end)
    }
}

impl fmt::Display for RedisUrl {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        secrets::found(|| self.written_password().map(SecretString::from));
        match self.password() {
            None => out.write_str(&mask_query(&self.0)),
            Some(secret) => {
                write!(out, "{}{MASK}{}", &self.0[..secret.start], mask_query(&self.0[secret.end..]))
            }
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
        let url = Self(text.to_owned()).unmasked()?;
        text.parse().map(|_: AnyUrl| url)
    }
}

crate::written!(
    RedisUrl,
    "\"redis://host:port\", \"rediss://host:port\" (TLS), \"unix:///path\", \"redis+sentinel://host:port,host:port/service\" or \"redis+cluster://host:port,host:port\""
);

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
            ("redis+cluster://u:hunter2@a:1,b:2", "redis+cluster://u:***@a:1,b:2"),
            ("redis+sentinel://u:hunter2@a:1,b:2/m?db=1", "redis+sentinel://u:***@a:1,b:2/m?db=1"),
            ("redis+unix:///r@1.sock?db=1&pass=hun@ter2", "redis+unix:///r@1.sock?db=1&pass=***"),
        ] {
            let read: RedisUrl = url.parse().unwrap();
            assert_eq!(read.expose(), url);
            assert_eq!((read.to_string(), format!("{read:?}")), (printed.to_owned(), printed.to_owned()));
        }
    }

    #[test]
    fn a_password_in_the_query_counts_as_one() {
        assert!("unix:///x?pass=hunter2".parse::<RedisUrl>().unwrap().has_password());
        assert!(!"unix:///x?user=pass".parse::<RedisUrl>().unwrap().has_password());
    }

    #[test]
    fn an_invalid_url_is_refused_without_repeating_it() {
        for text in [
            "",
            "localhost:6379",
            "http://:hunter2@h",
            "redis://",
            "redis://h:1 hunter2",
            "redis://u:***@h",
            "redis+unix:///x?password=hunter2",
            "redis://h:1?pass=hunter2",
            "redis://u:hunter2@h:1?db=hunter2",
            "rediss://u:hunter2@h:1?ssl_cert_reqs=none",
            "redis://u:hunter2",
            "redis://u:hun/hunter2@h:1",
            "redis://h:1#hunter2",
            "redis://:hun?ter2@h:1",
            "redis://:hunter2@h:99999",
            "redis+sentinel://:hunter2@h:1",
            "redis+sentinel://u:***@h:1/m",
            "redis+cluster://u:***@h:1",
            "redis+cluster://:hunter2@h:x",
            "redis+cluster://:hunter2@h:1/3",
        ] {
            let refusal = text.parse::<RedisUrl>().unwrap_err();
            assert!(!refusal.contains("hunter2"), "{refusal}");
        }
    }
}
