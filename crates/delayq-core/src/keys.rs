//! Keys and channels: everything of a shard begins with its hash tag, and so stays in one slot.

use crate::id::{Namespace, Topic};
use crate::shard::ShardId;

/// Number of slots of a Redis Cluster.
pub const SLOTS: u16 = 16384;

/// The keys of a deployment.
#[derive(Clone, Debug)]
pub struct Keys(Namespace);

/// The notifications on a shard's channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channel {
    /// The shard's next due time moved closer: the new time, in ms.
    Wake,
    /// A ready queue is no longer empty: its topic.
    Ready,
}

// === impl Keys ===

impl Keys {
    /// The keys of this namespace.
    pub fn new(namespace: Namespace) -> Self {
        Self(namespace)
    }

    /// The namespace.
    pub fn namespace(&self) -> &Namespace {
        &self.0
    }

    /// The prefix of every key of a shard: `{dq:7}:`.
    pub fn base(&self, shard: ShardId) -> String {
        format!("{{{}:{shard}}}:", self.0)
    }

    /// The Redis Cluster slot that holds the whole shard.
    pub fn slot(&self, shard: ShardId) -> u16 {
        let base = self.base(shard);
        crc16(&base.as_bytes()[1..base.len() - 2]) % SLOTS
    }

    /// The shard's registry, the first key of every call. Always exists.
    pub fn meta(&self, shard: ShardId) -> String {
        self.base(shard) + "meta"
    }

    /// The second key of every call. Never exists: during a slot move, Redis refuses a call whose keys exist only
    /// partly, instead of splitting the shard in two.
    pub fn never(&self, shard: ShardId) -> String {
        self.base(shard) + "never"
    }

    /// A channel of a shard.
    pub fn channel(&self, shard: ShardId, channel: Channel) -> String {
        self.base(shard) + channel.name()
    }

    /// The channel that the workers of a topic subscribe to while they listen. Nothing is published there: its subscribers are
    /// counted.
    pub fn workers(&self, topic: &Topic) -> String {
        self.base(ShardId::new(0)) + "workers:" + topic.as_str()
    }

    /// The shard and kind of a channel; `None` outside this namespace.
    pub fn parse_channel(&self, name: &str) -> Option<(ShardId, Channel)> {
        let (shard, kind) = self.parse(name.as_bytes())?;
        let channel =
            [Channel::Wake, Channel::Ready].into_iter().find(|channel| channel.name().as_bytes() == kind)?;
        Some((shard, channel))
    }

    /// The shard of a key or channel, and the rest after its base; `None` outside this namespace.
    pub fn parse<'k>(&self, key: &'k [u8]) -> Option<(ShardId, &'k [u8])> {
        let rest = key.strip_prefix(b"{")?.strip_prefix(self.0.as_str().as_bytes())?.strip_prefix(b":")?;
        let end = rest.windows(2).position(|pair| pair == b"}:")?;
        let shard = std::str::from_utf8(&rest[..end]).ok()?.parse().ok()?;
        Some((ShardId::new(shard), &rest[end + 2..]))
    }
}

// === impl Channel ===

impl Channel {
    const fn name(self) -> &'static str {
        match self {
            Self::Wake => "wake",
            Self::Ready => "ready",
        }
    }
}

/// CRC-16/XMODEM, which maps a hash tag to its Redis Cluster slot.
fn crc16(tag: &[u8]) -> u16 {
    tag.iter().fold(0, |crc, &byte| {
        let first = crc ^ u16::from(byte) << 8;
        (0..8).fold(first, |crc, _| if crc & 0x8000 == 0 { crc << 1 } else { crc << 1 ^ 0x1021 })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_channel_is_read_back() {
        let keys = Keys::new(Namespace::new("dq").unwrap());
        let name = keys.channel(ShardId::new(7), Channel::Ready);
        assert_eq!(name, "{dq:7}:ready");
        assert_eq!(keys.parse_channel(&name), Some((ShardId::new(7), Channel::Ready)));
        for other in ["{dx:7}:ready", "{dq:7}:r", "{dq:x}:ready", "{dq:70000}:ready", "{dq}:ready"] {
            assert_eq!(keys.parse_channel(other), None, "{other}");
        }
    }

    #[test]
    fn a_slot_is_the_one_that_cluster_keyslot_says() {
        assert_eq!(crc16(b"123456789"), 0x31c3);
        let keys = Keys::new(Namespace::new("dq").unwrap());
        let slots = [0, 1, 4095].map(|shard| keys.slot(ShardId::new(shard)));
        assert_eq!(slots, [8214, 12343, 742]);
    }

    #[test]
    fn a_key_is_parsed_whatever_bytes_its_id_has() {
        let keys = Keys::new(Namespace::new("dq").unwrap());
        assert_eq!(keys.parse(b"{dq:7}:m:1:\xff}:\x00"), Some((ShardId::new(7), &b"m:1:\xff}:\x00"[..])));
        for other in [&b"{dx:7}:m:1:a"[..], b"{dq:7:m:1:a", b"{dq:\xff}:m", b"dq:7}:m", b"{dq"] {
            assert_eq!(keys.parse(other), None, "{other:?}");
        }
    }
}
