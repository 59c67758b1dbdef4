//! A walk over every message of a deployment in use.
//!
//! The walk follows the keys of Redis, not time or state: a message has one key from put to end, in every state. So
//! SCAN shows every message that exists from the first step to the last, regardless of moves between states, and no
//! page of an index can skip a message. A message that comes or goes meanwhile may be shown or not, and a message may
//! be shown twice.
//!
//! The walk goes node by node:
//!
//! ```text
//! shards that are left ─► a node that has some of them as a whole ─► SCAN ─► those that it had all the time are through
//!          ▲                                                                                 │
//!          └──────────────── the others: they moved, or the node restarted ◄─────────────────┘
//! ```
//! A shard that moves during the walk over the node is walked over again at the new node, and the messages are shown
//! twice; no message is skipped.

mod cursor;
mod visit;

pub use cursor::WalkCursor;

use super::Admin;
use super::audit::paced_calls::PacedCalls;
use super::topic::peek;
use crate::clock;
use crate::error::Error;
use crate::link::Link;
use crate::payloads::FIRST;
use cursor::Visit;
use delayq_core::codec::{self, Unrestored};
use delayq_core::envelope::{self, Envelope, EnvelopeError};
use delayq_core::id::{Group, MessageId, Topic};
use delayq_core::shard::ShardId;
use delayq_core::target::Target;
use delayq_core::verbs::list::Listed;
use futures_util::{StreamExt, TryStreamExt, stream};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use visit::{found_again, is_on_its_way, next_visit, state_of, whole_at};

/// Keys that Redis walks over in one step: about so many messages are in memory at a time.
const A_STEP: usize = 250;
/// Messages that a script reads in one call.
const BODIES_A_CALL: usize = 8;
/// Concurrent calls: 4 MiB with payloads of 256 KiB, the default limit, which cross an ordinary network within the
/// deadline of a call.
const AT_ONCE: usize = 2;
/// Maximum time that a step waits for a shard that is moving to another node.
const ON_ITS_WAY: Duration = Duration::from_secs(60);
/// Interval between two calls to a moving shard.
const AGAIN: Duration = Duration::from_millis(100);

/// A walk over every message, step by step.
pub struct Walk {
    admin: Admin,
    /// The finished shards.
    through: BTreeSet<ShardId>,
    /// The present node, and the progress there.
    visit: Option<(Arc<Link>, Visit)>,
    only: BTreeSet<Topic>,
    /// The topics of the topic numbers seen so far.
    topics: HashMap<(ShardId, Vec<u8>), Option<Topic>>,
}

// === impl Walk ===

impl Walk {
    /// Limits the walk to messages of these topics; without topics, shows all messages.
    #[must_use]
    pub fn only(mut self, topics: impl IntoIterator<Item = Topic>) -> Self {
        self.only.extend(topics);
        self
    }

    /// Returns the messages of the next step: pending, leased and dead messages, with restored payloads where possible;
    /// some steps have no messages. `None`: every message was shown. Cancel safe, and safe to repeat after an error.
    ///
    /// # Errors
    /// A Redis that cannot be used; or a shard that is moving to another node for longer than a minute.
    pub async fn step(&mut self) -> Result<Option<Vec<Listed>>, Error> {
        let began = clock::instant();
        loop {
            match self.try_step().await {
                Err(error) if is_on_its_way(&error) && began.elapsed() < ON_ITS_WAY => {
                    tokio::time::sleep(AGAIN).await;
                }
                step => return step,
            }
        }
    }

    /// Returns the position after all messages shown so far.
    pub fn cursor(&self) -> WalkCursor {
        let visit = self.visit.as_ref().map(|(_, visit)| visit.clone());
        WalkCursor { through: self.through.clone(), visit }
    }

    /// Returns the present node, without secrets; `None` between two nodes.
    pub fn node(&self) -> Option<&str> {
        self.visit.as_ref().map(|(link, _)| link.address())
    }

    async fn try_step(&mut self) -> Result<Option<Vec<Listed>>, Error> {
        if self.visit.is_none() {
            self.visit = next_visit(&self.admin, &self.through).await?;
        }
        let Some((link, visit)) = self.visit.clone() else { return Ok(None) };
        let (next, keys) = self.scan(&link, visit.cursor).await?;
        let mut wanted: BTreeMap<(ShardId, Topic), BTreeSet<Target>> = BTreeMap::new();
        let mut nameless = Vec::new();
        for key in keys {
            let Some((shard, topic, target)) = self.named(&key, &visit.shards).await? else { continue };
            match topic {
                Ok(topic) if self.only.is_empty() || self.only.contains(&topic) => {
                    wanted.entry((shard, topic)).or_default().insert(target);
                }
                Err(number) if self.only.is_empty() => nameless.push((shard, number, target)),
                _ => {}
            }
        }
        let mut messages = self.read(wanted).await?;
        messages.extend(self.nameless(nameless).await?);
        if next == 0 {
            let whole = whole_at(&self.admin, &link, &visit.shards).await?;
            if state_of(&self.admin, &link).await? == visit.state {
                self.through.extend(whole);
            }
            self.visit = None;
        } else {
            self.visit = Some((link, Visit { cursor: next, ..visit }));
        }
        Ok(Some(messages))
    }

    async fn scan(&self, link: &Link, cursor: u64) -> Result<(u64, Vec<Vec<u8>>), Error> {
        let mut scan = redis::cmd("SCAN");
        scan.arg(cursor).arg("MATCH").arg(format!("{{{}:*}}:m:*", self.admin.client.namespace()));
        link.query("SCAN", scan.arg("COUNT").arg(A_STEP)).await
    }

    /// Splits the key of a message; `None` for other keys and other shards. A topic without a name is returned by
    /// number.
    async fn named(
        &mut self,
        key: &[u8],
        shards: &BTreeSet<ShardId>,
    ) -> Result<Option<(ShardId, Result<Topic, Vec<u8>>, Target)>, Error> {
        let keys = self.admin.client.calls.keys();
        let parts = keys.parse(key).and_then(|(shard, name)| Some((shard, name.strip_prefix(b"m:")?)));
        let Some((shard, name)) = parts.filter(|(shard, _)| shards.contains(shard)) else { return Ok(None) };
        let Some(colon) = name.iter().position(|&byte| byte == b':') else { return Ok(None) };
        let known = (shard, name[..colon].to_vec());
        if !self.topics.contains_key(&known) {
            let number = String::from_utf8_lossy(&name[..colon]);
            let mut redis = PacedCalls::new(self.admin.client.clone(), 1.0);
            let topic = redis.topic_name(shard, &number).await?;
            self.topics.insert(known.clone(), topic);
        }
        let (topic, target) = (self.topics[&known].clone(), Target::from_stored(&name[colon + 1..]));
        Ok(Some((shard, topic.ok_or(known.1), target)))
    }

    /// Lists the messages of topics without a readable name, which no script finds. Finished messages of a deleted
    /// topic are left out.
    async fn nameless(&self, named: Vec<(ShardId, Vec<u8>, Target)>) -> Result<Vec<Listed>, Error> {
        let (mut redis, mut messages) = (PacedCalls::new(self.admin.client.clone(), 1.0), Vec::new());
        for (shard, number, target) in named {
            let key = [b"m:", &number[..], b":", &target.stored()].concat();
            let heads = redis.heads(shard, &[key]).await?;
            if heads.first().is_some_and(|head| envelope::is_over(head)) {
                continue;
            }
            let topic = Topic::from_stored(&[b"#", &number[..]].concat());
            let envelope = Err(EnvelopeError::Malformed("the topic has no name"));
            messages.push(Listed { shard, topic, id: target.id, group: target.group, envelope });
        }
        Ok(messages)
    }

    async fn read(&self, wanted: BTreeMap<(ShardId, Topic), BTreeSet<Target>>) -> Result<Vec<Listed>, Error> {
        let client = &self.admin.client;
        let mut calls = Vec::new();
        for ((shard, topic), targets) in wanted {
            let targets: Vec<Target> = targets.into_iter().collect();
            calls.extend(targets.chunks(BODIES_A_CALL).map(|some| {
                let (topic, targets) = (topic.clone(), some.to_vec());
                async move {
                    let targets: Vec<&Target> = targets.iter().collect();
                    peek(&client.calls, shard, &topic, &targets).await
                }
            }));
        }
        let found: Vec<_> = stream::iter(calls).buffer_unordered(AT_ONCE).try_collect().await?;
        let is_over = |listed: &Listed| listed.envelope.as_ref().is_ok_and(|found| found.state.is_over());
        let mut messages: Vec<Listed> = found.into_iter().flatten().flatten().collect();
        messages.retain(|listed| !is_over(listed));
        // Without the shard of the dictionaries, payloads that need a dictionary stay compressed.
        let is_lost = |envelope: &Envelope| {
            let needs_one = || codec::dictionary_of(&envelope.payload).is_some();
            self.admin.leaves_out(FIRST) && envelope.zstd && needs_one()
        };
        let envelopes = messages.iter_mut().filter_map(|listed| listed.envelope.as_mut().ok());
        let envelopes = envelopes.filter(|envelope| !is_lost(envelope));
        let answers = client.payloads.restore_all(envelopes).await;
        let not_now = answers.into_iter().flatten().find_map(|answer| match answer {
            Unrestored::NotNow(why) => Some(why),
            Unrestored::Never(_) => None,
        });
        match not_now {
            Some(why) => Err(Error::NoAnswer { address: client.address(), why }),
            None => Ok(messages),
        }
    }
}

impl fmt::Debug for Walk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Walk").field("at", &self.cursor()).finish_non_exhaustive()
    }
}

// === impl Admin ===

impl Admin {
    /// Begins or continues a walk over every message of the deployment, except in shards that are left out.
    ///
    /// # Errors
    /// A Redis that cannot be used, or the deployment does not exist.
    pub async fn walk(&self, from: Option<&WalkCursor>) -> Result<Walk, Error> {
        self.client.calls.layout().await?;
        let WalkCursor { through, mut visit } = from.cloned().unwrap_or_default();
        if let Some(visit) = &mut visit {
            visit.shards.retain(|&shard| !self.leaves_out(shard));
        }
        let visit = match visit {
            Some(visit) if !visit.shards.is_empty() => found_again(self, visit).await?,
            _ => None,
        };
        let (only, topics) = (BTreeSet::new(), HashMap::new());
        Ok(Walk { admin: self.clone(), through, visit, only, topics })
    }

    /// Returns the id in this deployment for a message of another deployment: the same id, unless a generated id names
    /// a shard in which this deployment would not find the message. The same id gives the same answer until this
    /// deployment grows. Call [`Admin::layout`] before: until then the configured shards count.
    pub fn id_here(&self, id: &MessageId, group: Option<&Group>) -> MessageId {
        let Some(shard) = id.shard() else { return id.clone() };
        let layout = self.client.calls.known().layout;
        match group.map(|group| layout.placement(group.as_str())) {
            Some(places) if places.newest_first().any(|place| place == shard) => id.clone(),
            Some(places) => id.with_shard(places.home),
            None if layout.shards().contains(shard) => id.clone(),
            None => id.with_shard(ShardId::new(shard.get() % layout.shards().get())),
        }
    }
}
