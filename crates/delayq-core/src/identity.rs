//! The identity of a deployment, which tells it from every other, whatever both are called.
//!
//! Each shard records it. It is random, made once for all shards, and never changed.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Digits shown to people.
const SHORT: usize = 8;

/// The identity of a deployment: 32 hexadecimal digits in lower case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct DeploymentId([u8; 16]);

/// A text that is no identity of a deployment.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not the identity of a deployment: expected 32 hexadecimal digits in lower case")]
pub struct DeploymentIdError(String);

// === impl DeploymentId ===

impl DeploymentId {
    /// A new one, unlike any other.
    pub fn random() -> Self {
        Self(uuid::Uuid::new_v4().into_bytes())
    }

    /// The first digits, which are enough for people.
    pub fn short(self) -> String {
        self.to_string()[..SHORT].to_owned()
    }
}

impl fmt::Display for DeploymentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

impl FromStr for DeploymentId {
    type Err = DeploymentIdError;

    fn from_str(text: &str) -> Result<Self, DeploymentIdError> {
        let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        let odd = || DeploymentIdError(text.chars().take(80).collect());
        if text.len() != 32 || !text.bytes().all(is_digit) {
            return Err(odd());
        }
        u128::from_str_radix(text, 16).map(|number| Self(number.to_be_bytes())).map_err(|_| odd())
    }
}

impl TryFrom<String> for DeploymentId {
    type Error = DeploymentIdError;

    fn try_from(text: String) -> Result<Self, DeploymentIdError> {
        text.parse()
    }
}

impl From<DeploymentId> for String {
    fn from(id: DeploymentId) -> Self {
        id.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_is_read_back_as_it_was_written_and_no_two_are_the_same() {
        let (one, other) = (DeploymentId::random(), DeploymentId::random());
        assert_ne!(one, other);
        assert_eq!(one.to_string().parse(), Ok(one));
        assert_eq!(one.short(), one.to_string()[..8]);
        for text in ["", "0f", "0F0F0F0F0F0F0F0F0F0F0F0F0F0F0F0F", "+0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0", "x"] {
            assert!(text.parse::<DeploymentId>().is_err(), "{text}");
        }
    }
}
