//! What keys in etcd are made of: their first part, and the names of members.

use delayq_service::config::Faults;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// What every key of a deployment in etcd begins with: `/` and one part, 1 to 64 of `A-Z a-z 0-9 . _ -`; default `/delayq`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct KeyPrefix(String);

/// An invalid prefix.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a prefix: expected / and 1 to 64 of A-Z a-z 0-9 . _ -, such as \"/delayq\"")]
pub struct KeyPrefixError(String);

// === impl KeyPrefix ===

impl Default for KeyPrefix {
    fn default() -> Self {
        Self("/delayq".to_owned())
    }
}

impl TryFrom<String> for KeyPrefix {
    type Error = KeyPrefixError;

    fn try_from(text: String) -> Result<Self, KeyPrefixError> {
        let sound = text.strip_prefix('/').is_some_and(is_key_part);
        if sound { Ok(Self(text)) } else { Err(KeyPrefixError(text.chars().take(80).collect())) }
    }
}

impl FromStr for KeyPrefix {
    type Err = KeyPrefixError;

    fn from_str(text: &str) -> Result<Self, KeyPrefixError> {
        Self::try_from(text.to_owned())
    }
}

impl From<KeyPrefix> for String {
    fn from(prefix: KeyPrefix) -> String {
        prefix.0
    }
}

impl fmt::Display for KeyPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Whether a text can be one part of a key, such as a member's name: 1 to 64 of `A-Z a-z 0-9 . _ -`, but not `.` or `..`.
pub(crate) fn is_key_part(text: &str) -> bool {
    (1..=64).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'))
        && text != "."
        && text != ".."
}

/// Refuses a name that no member of a fleet can have; `""` stands for a default.
pub fn validate_name(at: &mut Faults, key: &str, name: &str) {
    if !name.is_empty() && !is_key_part(name) {
        at.refuse(key, "expected at most 64 characters of A-Z, a-z, 0-9, ., _ and -, and not . or ..");
    }
}

/// A name that no other process has: the host's and the process id.
#[must_use]
pub fn name_of_process() -> String {
    let system = rustix::system::uname();
    let is_plain = |c: &char| c.is_ascii_alphanumeric() || "._-".contains(*c);
    let host: String = system.nodename().to_string_lossy().chars().filter(is_plain).take(48).collect();
    format!("{host}-{}", std::process::id())
}
