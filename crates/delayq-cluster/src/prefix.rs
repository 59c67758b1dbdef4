//! The first part of every key in etcd.

use delayq_service::config::Written;
use delayq_service::is_name;
use std::fmt;
use std::str::FromStr;

/// The beginning of every key of a deployment in etcd: `/` and one part, 1 to 64 of `A-Z a-z 0-9 . _ -`; default
/// `/delayq`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyPrefix(String);

// === impl KeyPrefix ===

impl Default for KeyPrefix {
    fn default() -> Self {
        Self("/delayq".to_owned())
    }
}

impl FromStr for KeyPrefix {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.strip_prefix('/').is_some_and(is_name) {
            return Ok(Self(text.to_owned()));
        }
        let beginning: String = text.chars().take(80).collect();
        Err(format!("{beginning:?} is not a prefix: expected {}", Self::EXPECTED))
    }
}

delayq_service::written!(KeyPrefix, "/ and 1 to 64 of A-Z a-z 0-9 . _ -, such as \"/delayq\"");

impl fmt::Display for KeyPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
