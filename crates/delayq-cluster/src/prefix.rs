//! What keys in etcd are made of: their first part, and the names of members.

use delayq_service::config::{Faults, Written};
use std::fmt;
use std::str::FromStr;

/// What every key of a deployment in etcd begins with: `/` and one part, 1 to 64 of `A-Z a-z 0-9 . _ -`; default `/delayq`.
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
        if text.strip_prefix('/').is_some_and(is_key_part) {
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
