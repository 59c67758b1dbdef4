//! Spreading due times evenly by id, with the same result in every client.

use sha2::{Digest as _, Sha256};
use std::time::Duration;

/// The offset of an id within a span, in whole milliseconds: at least 0, less than the span. Offsets of many ids are
/// spread evenly, and a repeat with the same id gets the same offset.
pub fn offset(id: &str, span: Duration) -> Duration {
    let digest = Sha256::digest(id.as_bytes());
    let first = digest[..8].iter().fold(0_u128, |number, &byte| number << 8 | u128::from(byte));
    let ms = (span.as_millis().min(u64::MAX.into()) * first) >> 64;
    Duration::from_millis(u64::try_from(ms).expect("less than the span"))
}
