//! Keys and channels: everything of a shard begins with its hash tag, so that it lives in one slot.

use crate::{Namespace, ShardId};

/// The keys of one deployment.
#[derive(Clone, Debug)]
pub struct Keys(Namespace);

/// What is said on a shard's channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channel {
    /// The shard's next due time has come nearer: that time, in ms.
    Wake,
    /// A ready queue is not empty any more: its topic.
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

    /// What every key of a shard begins with: `{dq:7}:`.
    pub fn base(&self, shard: ShardId) -> String {
        format!("{{{}:{shard}}}:", self.0)
    }

    /// The shard's registry, which every script is given: it is always there.
    pub fn meta(&self, shard: ShardId) -> String {
        self.base(shard) + "meta"
    }

    /// The second key that every script is given: it is never there. A slot on the move refuses a call whose
    /// keys are partly there, instead of splitting the shard in two.
    pub fn never(&self, shard: ShardId) -> String {
        self.base(shard) + "never"
    }

    /// A channel of a shard.
    pub fn channel(&self, shard: ShardId, channel: Channel) -> String {
        self.base(shard) + channel.name()
    }

    /// The shard and the kind of a channel; `None` where it is none of this namespace.
    pub fn parse_channel(&self, name: &str) -> Option<(ShardId, Channel)> {
        let rest = name.strip_prefix('{')?.strip_prefix(self.0.as_str())?.strip_prefix(':')?;
        let (shard, kind) = rest.split_once("}:")?;
        let channel = [Channel::Wake, Channel::Ready].into_iter().find(|channel| channel.name() == kind)?;
        Some((ShardId::new(shard.parse().ok()?), channel))
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
}
