//! The client: one deployment's shards, and the scripts on them.

use crate::{
    Error, MessageId, Namespace, ShardCount, ShardId, UnixMillis,
    codec::Dictionaries,
    keys::{Channel, Keys},
    link::{Call, Link, LinkSettings},
    listen::Listener,
    message::DEFAULT_PAYLOAD_BYTES,
    payload::Codecs,
    script::{Scripts, Verb},
};
use redis::Value;
use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

/// The most ids in one call of a script.
pub const MAX_IDS_A_CALL: usize = 500;

/// The most bytes of payloads in one call of a script.
pub const MAX_BYTES_A_CALL: usize = 4 * 1024 * 1024;

/// Which deployment, and where it is.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The Redis that keeps it.
    pub link: LinkSettings,
    /// What its keys begin with. Default `dq`.
    pub namespace: Namespace,
    /// How many shards it was created with. Default 16.
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
    shards: ShardCount,
    most_payload_bytes: usize,
    next_shard: AtomicU32,
    codecs: Codecs,
    dictionaries: Dictionaries,
}

// === impl Settings ===

impl Settings {
    /// The defaults for a Redis at this address.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            link: LinkSettings::new(url),
            namespace: Namespace::new("dq").expect("the default namespace is a valid one"),
            shards: ShardCount::new(16).expect("16 is a valid count"),
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
            shards: settings.shards,
            most_payload_bytes: settings.most_payload_bytes,
            next_shard: AtomicU32::new(fastrand::u32(..)),
            codecs: Codecs::default(),
            dictionaries: Dictionaries::default(),
        }))
    }

    /// How many shards the deployment has.
    pub fn shards(&self) -> ShardCount {
        self.0.shards
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
        Listener::start(self.link().settings().clone(), self.keys().clone(), Channel::Wake, shards)
    }

    /// Listens for ready queues that are not empty any more, on a connection of its own.
    pub fn listen_for_ready(&self, shards: Vec<ShardId>) -> Listener {
        Listener::start(self.link().settings().clone(), self.keys().clone(), Channel::Ready, shards)
    }

    /// The shard of a message: of its group if it has one, else of its id.
    pub fn shard_of(&self, id: &MessageId, group: Option<&crate::Group>) -> ShardId {
        match (group, id) {
            (Some(group), _) => self.0.shards.shard_of_name(group.as_str()),
            (None, MessageId::Own(id)) => self.0.shards.shard_of_name(id.as_str()),
            (None, MessageId::Generated(_)) => id.shard().expect("a generated id carries its shard"),
        }
    }

    /// The shard for messages with generated ids. Those that go together share one, so that they share a call.
    pub(crate) fn present_shard(&self) -> ShardId {
        let present = self.0.next_shard.load(Ordering::Relaxed);
        ShardId::new((present % u32::from(self.0.shards.get())) as u16)
    }

    /// Goes on to the next shard for messages with generated ids.
    pub(crate) fn next_shard(&self) -> ShardId {
        self.0.next_shard.fetch_add(1, Ordering::Relaxed);
        self.present_shard()
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

    pub(crate) fn call(&self, verb: Verb, shard: ShardId) -> Call {
        self.link().call(verb, shard)
    }

    pub(crate) async fn send(&self, call: Call) -> Result<Value, Error> {
        self.link().send(call).await
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("link", self.link().settings())
            .field("namespace", self.keys().namespace())
            .field("shards", &self.0.shards)
            .finish()
    }
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
