//! The ranges of options. An option outside its range is refused by name on entry.

use delayq_core::limits::{MAX_CONCURRENCY, MAX_IDS_A_CALL, MAX_TIMEOUT_MS};
use delayq_core::message::MAX_PAYLOAD_BYTES;
use std::fmt::Debug;
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);
const DAY: Duration = Duration::from_secs(24 * 3600);
const LONGEST_TIMEOUT: Duration = Duration::from_millis(MAX_TIMEOUT_MS);
/// The longest keepalive time that Linux accepts.
const LONGEST_KEEPALIVE: Duration = Duration::from_secs(32_767);

pub(crate) const TOPICS: Range<usize> = Range::new("topics", 1, MAX_IDS_A_CALL);
pub(crate) const CONCURRENCY: Range<usize> = Range::new("concurrency", 1, MAX_CONCURRENCY);
pub(crate) const LEASE: Range<Duration> = Range::new("lease", MS, DAY);
pub(crate) const PAYLOAD: Range<usize> = Range::new("max_payload_bytes", 1, MAX_PAYLOAD_BYTES);
pub(crate) const CONNECT_TIMEOUT: Range<Duration> = Range::new("connect_timeout", MS, LONGEST_TIMEOUT);
pub(crate) const DEADLINE: Range<Duration> = Range::new("deadline", MS, LONGEST_TIMEOUT);
pub(crate) const KEEPALIVE: Range<Duration> =
    Range::new("keepalive", Duration::from_secs(1), LONGEST_KEEPALIVE);
pub(crate) const RATE: Range<u32> = Range::new("rate", 1, u32::MAX);
pub(crate) const SHARE: Range<f64> = Range::new("share", 1e-6, 1.0);

/// An option outside its range.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{option} is {value}: it must be from {range}")]
#[non_exhaustive]
pub struct OutOfRange {
    /// The name of the option; for topics and payloads, the value is a number or size.
    pub option: &'static str,
    /// The value.
    pub value: Box<str>,
    /// The range: `1 to 10000`.
    pub range: Box<str>,
}

pub(crate) struct Range<T> {
    option: &'static str,
    least: T,
    most: T,
}

// === impl Range ===

impl<T: Copy + Debug + PartialOrd> Range<T> {
    pub(crate) const fn new(option: &'static str, least: T, most: T) -> Self {
        Self { option, least, most }
    }

    pub(crate) fn check(&self, value: T) -> Result<T, OutOfRange> {
        if (self.least..=self.most).contains(&value) {
            return Ok(value);
        }
        let range = format!("{:?} to {:?}", self.least, self.most).into();
        Err(OutOfRange { option: self.option, value: format!("{value:?}").into(), range })
    }
}
