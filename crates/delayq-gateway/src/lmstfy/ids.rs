//! Ids of jobs: lmstfy's texts, which are delayq's generated ids.
//!
//! ```text
//! 0   6  ms since the epoch      8   2 bits  10            9   3  the rest of them
//! 6   4 bits  7                      1 bit   version 1     12  4  delay in seconds, little-endian
//!     12 bits shard                  5 bits  a counter
//! ```
//! As text, 26 characters of Crockford's base 32; `1` stands before an id of version 1.

use delayq::MessageId;
use delayq::protocol::ShardId;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};

const DIGITS: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
const LENGTH: usize = 26;
/// The bit of ids of version 1, which say that the job may have attributes.
const VERSION_1: u8 = 0x20;

/// Tells the ids of a millisecond apart, and puts them in order. Each process starts anywhere.
static NUMBER: LazyLock<AtomicU32> = LazyLock::new(|| AtomicU32::new(fastrand::u32(..)));

pub(super) fn new_id(shard: ShardId, unix_ms: u64, is_version_1: bool, delay: u32) -> MessageId {
    let number = NUMBER.fetch_add(1, Ordering::Relaxed).to_be_bytes();
    let [high, low] = shard.get().to_be_bytes();
    let version = if is_version_1 { VERSION_1 } else { 0 };
    let mut bytes = [0; 16];
    bytes[..6].copy_from_slice(&unix_ms.to_be_bytes()[2..]);
    bytes[6..9].copy_from_slice(&[0x70 | high & 0x0f, low, 0x80 | version | number[0] & 0x1f]);
    bytes[9..12].copy_from_slice(&number[1..]);
    bytes[12..].copy_from_slice(&delay.to_le_bytes());
    MessageId::from_bytes(&bytes).expect("16 bytes that begin with the time are a generated id")
}

/// `None` for an own id.
pub(super) fn text(id: &MessageId) -> Option<String> {
    let MessageId::Generated(uuid) = id else { return None };
    let version = if is_version_1(id) { "1" } else { "" };
    Some(format!("{version}{}", encoded(*uuid.as_bytes())))
}

/// `None` if no generated id has this text.
pub(super) fn read(given: &str) -> Option<MessageId> {
    let plain = given.get(given.len().checked_sub(LENGTH)?..)?;
    let id = MessageId::from_bytes(&decoded(plain)?)?;
    text(&id).filter(|text| text == given).map(|_| id)
}

pub(super) fn is_version_1(id: &MessageId) -> bool {
    id.shard().is_some() && id.as_bytes()[8] & VERSION_1 > 0
}

/// In ms since the epoch.
pub(super) fn time_of(id: &MessageId) -> Option<u64> {
    id.shard()?;
    Some(id.as_bytes()[..6].iter().fold(0, |time, &byte| time << 8 | u64::from(byte)))
}

/// Names no job: for requests and tokens.
pub(super) fn fresh_text(unix_ms: u64) -> String {
    let random = fastrand::u128(..) >> 48;
    encoded((u128::from(unix_ms) << 80 | random).to_be_bytes())
}

fn encoded(bytes: [u8; 16]) -> String {
    let number = u128::from_be_bytes(bytes);
    let digit = |at: usize| char::from(DIGITS[(number >> (5 * (LENGTH - 1 - at)) & 31) as usize]);
    (0..LENGTH).map(digit).collect()
}

fn decoded(text: &str) -> Option<[u8; 16]> {
    let digit = |byte: u8| DIGITS.iter().position(|&known| known == byte);
    let add = |number: u128, byte: u8| {
        let shifted = number.checked_mul(32)?;
        Some(shifted | digit(byte)? as u128)
    };
    text.bytes().try_fold(0, add).map(u128::to_be_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_read_back_with_its_shard_time_and_version() {
        for (shard, is_new, delay) in [(0, false, 0), (4095, true, 3600), (17, false, u32::MAX)] {
            let id = new_id(ShardId::new(shard), 1_763_697_600_123, is_new, delay);
            let text = text(&id).unwrap();
            assert_eq!(text.len(), 26 + usize::from(is_new));
            assert_eq!(read(&text), Some(id.clone()));
            assert_eq!((id.shard(), time_of(&id)), (Some(ShardId::new(shard)), Some(1_763_697_600_123)));
            assert_eq!(is_version_1(&id), is_new);
            assert_eq!(id.as_bytes()[12..], delay.to_le_bytes());
            assert_eq!(id.to_string().parse::<MessageId>().unwrap(), id, "it is of version 7");
        }
    }

    #[test]
    fn ids_of_a_millisecond_rise() {
        let ids: Vec<_> = (0..1000).map(|_| new_id(ShardId::new(1), 1_763_697_600_123, false, 0)).collect();
        let falls = ids.windows(2).filter(|pair| pair[0] >= pair[1]).count();
        assert!(falls <= 1, "the counter starts over once in 2^29");
    }

    #[test]
    fn a_text_that_is_no_id_is_not_read() {
        let good = text(&new_id(ShardId::new(1), 1_763_697_600_123, false, 0)).unwrap();
        for bad in ["", "x", &good[1..], &format!("2{good}"), &format!("1{good}"), &good.to_lowercase(), "é"]
        {
            assert_eq!(read(bad), None, "{bad}");
        }
        assert_eq!(read(&"Z".repeat(26)), None, "more than 128 bits");
        assert_eq!(fresh_text(1_763_697_600_123).len(), 26);
    }
}
