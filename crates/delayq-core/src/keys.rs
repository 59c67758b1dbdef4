//! Keys and channels: everything of a shard begins with its hash tag, and so stays in one slot.

use crate::id::{Namespace, Topic};
use crate::shard::ShardId;

/// Number of slots of a Redis Cluster.
pub const SLOTS: u16 = 16384;

/// The keys of a deployment.
#[derive(Clone, Debug)]
pub struct Keys(Namespace);

/// Every key and channel, by the parts that the forms of [`KEY_FORMS`] name.
pub const KEY_FORM: &str = "{NAMESPACE:SHARD}:NAME";

/// A key or channel that a client names; scripts name all others.
#[derive(Clone, Copy, Debug)]
pub struct KeyForm {
    /// The name behind the prefix of the shard; a part in capitals is variable.
    pub name: &'static str,
    /// True for a channel of PUBLISH.
    pub is_channel: bool,
    /// What the key has, or the channel reports.
    pub means: &'static str,
}

/// The keys and channels that clients name.
pub const KEY_FORMS: [KeyForm; 5] = [
    KeyForm { name: META, is_channel: false, means: "The shard's registry, the first key of every call" },
    KeyForm { name: NEVER, is_channel: false, means: "The second key of every call; never exists" },
    KeyForm { name: WAKE, is_channel: true, means: "The shard's next due time, in ms, once it moves closer" },
    KeyForm { name: READY, is_channel: true, means: "The topic of a ready queue that is no longer empty" },
    KeyForm {
        name: WORKERS,
        is_channel: true,
        means: "Of shard 0: its subscribers are the workers of the topic",
    },
];

const META: &str = "meta";
const NEVER: &str = "never";
const WAKE: &str = "wake";
const READY: &str = "ready";
const WORKERS: &str = "workers:TOPIC";

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
        self.base(shard) + META
    }

    /// The second key of every call. Never exists: during a slot move, Redis refuses a call whose keys exist only
    /// partly, instead of splitting the shard in two.
    pub fn never(&self, shard: ShardId) -> String {
        self.base(shard) + NEVER
    }

    /// A channel of a shard.
    pub fn channel(&self, shard: ShardId, channel: Channel) -> String {
        self.base(shard) + channel.name()
    }

    /// The channel that the workers of a topic subscribe to while they listen. Nothing is published there: its subscribers are
    /// counted.
    pub fn workers(&self, topic: &Topic) -> String {
        self.base(ShardId::new(0)) + &WORKERS.replace("TOPIC", topic.as_str())
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

// === impl KeyForm ===

impl KeyForm {
    /// The name without the variable part.
    pub fn fixed(&self) -> &'static str {
        self.name.trim_end_matches(|c: char| c.is_ascii_uppercase())
    }

    /// The name as a constant of a client, in lower case.
    pub fn constant(&self) -> &'static str {
        self.fixed().trim_end_matches(':')
    }
}

// === impl Channel ===

impl Channel {
    const fn name(self) -> &'static str {
        match self {
            Self::Wake => WAKE,
            Self::Ready => READY,
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
    fn keys_and_channels_have_the_forms_of_the_table() {
        let (keys, shard) = (Keys::new(Namespace::new("dq").unwrap()), ShardId::new(7));
        let channels = [Channel::Wake, Channel::Ready].map(|channel| keys.channel(shard, channel));
        let [wake, ready] = channels;
        let workers = keys.workers(&Topic::new("TOPIC").unwrap()).replace(":0}", ":7}");
        let made = [keys.meta(shard), keys.never(shard), wake, ready, workers];
        for (KeyForm { name, .. }, key) in KEY_FORMS.iter().zip(made) {
            let form = KEY_FORM.replace("NAMESPACE", "dq").replace("SHARD", "7");
            assert_eq!(form.replace("NAME", name), key);
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
