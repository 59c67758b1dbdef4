//! The client: one deployment's shards, and the scripts on them.

use crate::{
    Growth, Message, MessageId, Namespace, ShardCount, ShardId, UnixMillis,
    codec::Dictionaries,
    keys::{Channel, Keys},
    layout::{Knowledge, Known},
    link::{Link, LinkSettings},
    listen::Listener,
    message::DEFAULT_PAYLOAD_BYTES,
    payload::Codecs,
    script::Scripts,
    spread::Spread,
};
use std::{fmt, sync::Arc};

/// The most ids in one call of a script.
pub const MAX_IDS_A_CALL: usize = 500;

/// The most bytes of messages in one call of a script: payloads and headers, and 512 for each.
pub const MAX_BYTES_A_CALL: usize = 4 * 1024 * 1024;

/// Which deployment, and where it is.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The Redis that keeps it.
    pub link: LinkSettings,
    /// What its keys begin with. Default `dq`.
    pub namespace: Namespace,
    /// How many shards it has, or had before it grew: Redis knows better, once it is asked. Default 16.
    pub shards: ShardCount,
    /// The most bytes of a payload, at most 1 MiB. Default 256 KiB.
    pub most_payload_bytes: usize,
}

/// A deployment. Cheap to clone: all clones share one connection.
#[derive(Clone)]
pub struct Client(Arc<Inner>);

struct Inner {
    link: Link,
    keys: Keys,
    knowledge: Knowledge,
    most_payload_bytes: usize,
    spread: Spread,
    codecs: Codecs,
    dictionaries: Dictionaries,
}

// === impl Settings ===

impl Settings {
    /// The defaults for a Redis at this address.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            link: LinkSettings::new(url),
            namespace: Namespace::default(),
            shards: ShardCount::default(),
            most_payload_bytes: DEFAULT_PAYLOAD_BYTES,
        }
    }
}

// === impl Client ===

impl Client {
    /// A client that connects when it is first used.
    pub fn new(settings: Settings) -> Self {
        Self::with_scripts(settings, Arc::new(Scripts::published()))
    }

    /// A client with other scripts than the published ones, for tests.
    pub fn with_scripts(settings: Settings, scripts: Arc<Scripts>) -> Self {
        let keys = Keys::new(settings.namespace);
        Self(Arc::new(Inner {
            link: Link::new(settings.link, keys.clone(), scripts),
            keys,
            knowledge: Knowledge::configured(settings.shards),
            most_payload_bytes: settings.most_payload_bytes,
            spread: Spread::default(),
            codecs: Codecs::default(),
            dictionaries: Dictionaries::default(),
        }))
    }

    /// The same deployment on a connection of its own, which is made when it is first used: for calls that must not wait
    /// behind the answers to others.
    #[must_use]
    pub fn apart(&self) -> Self {
        Self(Arc::new(Inner {
            link: self.0.link.another(),
            keys: self.0.keys.clone(),
            knowledge: self.0.knowledge.clone(),
            most_payload_bytes: self.0.most_payload_bytes,
            spread: Spread::default(),
            codecs: Codecs::default(),
            dictionaries: Dictionaries::default(),
        }))
    }

    /// How many shards the deployment has, as far as is known: before Redis was asked, what is configured; after a
    /// growth, the new number once any call has met it. [`Client::layout`] asks.
    pub fn shards(&self) -> ShardCount {
        self.0.knowledge.shards()
    }

    /// Follows the number of shards: for whoever serves all of them for a long time.
    pub fn growth(&self) -> Growth {
        self.0.knowledge.growth()
    }

    /// The keys of the deployment.
    pub fn keys(&self) -> &Keys {
        &self.0.keys
    }

    /// The Redis's address, without secrets.
    pub fn address(&self) -> String {
        self.link().settings().address()
    }

    /// The most bytes of a payload.
    pub fn most_payload_bytes(&self) -> usize {
        self.0.most_payload_bytes
    }

    /// Listens for due times that come nearer, on a connection of its own: for timers.
    pub fn listen_for_wakes(&self, shards: Vec<ShardId>) -> Listener {
        Listener::start(self.link(), self.keys().clone(), Channel::Wake, shards)
    }

    /// Listens for ready queues that are not empty any more, on a connection of its own.
    pub fn listen_for_ready(&self, shards: Vec<ShardId>) -> Listener {
        Listener::start(self.link(), self.keys().clone(), Channel::Ready, shards)
    }

    /// The shard that a message belongs to: that of its group if it has one, else of its id. A message that was put
    /// before the deployment grew may be in an earlier one.
    pub fn shard_of(&self, id: &MessageId, group: Option<&crate::Group>) -> ShardId {
        match group {
            Some(group) => self.shards().shard_of_name(group.as_str()),
            None => self.known().layout.places_of(id, None).home,
        }
    }

    pub(crate) fn knowledge(&self) -> &Knowledge {
        &self.0.knowledge
    }

    pub(crate) fn known(&self) -> Known {
        self.0.knowledge.known()
    }

    pub(crate) fn spread(&self) -> &Spread {
        &self.0.spread
    }

    pub(crate) fn codecs(&self) -> &Codecs {
        &self.0.codecs
    }

    pub(crate) fn dictionaries(&self) -> &Dictionaries {
        &self.0.dictionaries
    }

    pub(crate) fn link(&self) -> &Link {
        &self.0.link
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("link", self.link().settings())
            .field("namespace", self.keys().namespace())
            .field("shards", &self.shards())
            .finish()
    }
}

/// How many of the messages fit into one call.
pub(crate) fn calls_worth<'a>(messages: impl Iterator<Item = &'a Message>) -> usize {
    let mut bytes = 0;
    let fits = |message: &&Message| {
        bytes += message.bytes();
        bytes <= MAX_BYTES_A_CALL
    };
    messages.take(MAX_IDS_A_CALL).take_while(fits).count().max(1)
}

/// An option as its range allows it; one outside is told, and the nearest value taken.
pub(crate) fn in_range(name: &str, value: usize, range: std::ops::RangeInclusive<usize>) -> usize {
    let taken = value.clamp(*range.start(), *range.end());
    if taken != value {
        tracing::warn!(option = name, value, taken, "an option is outside its range {range:?}");
    }
    taken
}

/// Where a message was put: what finds it again.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Reference {
    /// The shard it lives in.
    pub shard: ShardId,
    /// Its id.
    pub id: MessageId,
}

/// A time in µs as scripts tell it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct UnixMicros(pub u64);

// === impl UnixMicros ===

impl UnixMicros {
    /// The millisecond it falls into.
    pub const fn millis(self) -> UnixMillis {
        UnixMillis::new(self.0 / 1000)
    }

    /// How long after `due` it is; zero where it is not after it.
    pub const fn since(self, due: UnixMillis) -> std::time::Duration {
        std::time::Duration::from_micros(self.0.saturating_sub(due.get().saturating_mul(1000)))
    }
}
