//! Helpers for tests: a deployment for one test, what is pending in it, and deliveries without waiting.
//!
//! ```no_run
//! # async fn example() -> Result<(), delayq::Error> {
//! use delayq::worker::testing::{Isolated, isolated};
//! use delayq::{Message, Producer, ProducerOptions, ShardCount, Topic};
//! use std::time::Duration;
//!
//! let shards = ShardCount::new(1).expect("a deployment has a shard");
//! isolated("redis://127.0.0.1:6379", shards, async |queue: &Isolated| {
//!     let orders = Topic::new("orders").unwrap();
//!     let producer = Producer::start(queue.client().clone(), ProducerOptions::default());
//!     producer.put(Message::new(orders.clone(), "17").after(Duration::from_secs(1800))).await.unwrap();
//!     assert_eq!(queue.pending(&orders).await.unwrap()[0].payload, b"17");
//!     let drained = queue.drain(&[orders], async |_job| Ok(())).await.unwrap();
//!     assert_eq!(drained.len(), 1);
//! })
//! .await
//! # }
//! ```

mod draining;

pub use draining::{Drained, NotDrained};

use crate::admin::{Admin, ListState, Listing, PromoteOptions, TimeRange};
use crate::client::{Client, Settings};
use crate::error::Error;
use crate::link::LinkSettings;
use crate::owner::Owner;
use delayq_core::id::{Group, MessageId, Namespace, Topic};
use delayq_core::limits::MAX_IDS_A_CALL;
use delayq_core::shard::{ShardCount, ShardId};
use delayq_core::time::UnixMillis;
use delayq_core::verbs::claim::Claimed;
use delayq_core::verbs::pump::PumpWord;
use futures_util::FutureExt;
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::time::Duration;

/// Keys that a step of a removal visits.
const KEYS_A_STEP: usize = 10_000;
/// The owner of the shards: a worker that pumps may take them at once, since the lock is over at once.
const OWNER: &str = "worker/testing";
const LOCK: Duration = Duration::from_millis(1);

/// A deployment without a timer, for one test: its messages become due by [`Self::promote_all`] and [`Self::drain`].
#[derive(Debug)]
pub struct Isolated {
    client: Client,
    admin: Admin,
    owner: Owner,
}

/// A message that waits for its due time, or for a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pending {
    /// The id.
    pub id: MessageId,
    /// The due time.
    pub due: UnixMillis,
    /// The payload.
    pub payload: Vec<u8>,
    /// The group.
    pub group: Option<Group>,
    /// The headers: names and values.
    pub headers: Vec<(String, String)>,
}

/// Runs a test in a deployment in a namespace of its own, and removes all of its keys afterwards, even after a panic.
/// Nothing else in that Redis is touched, though a removal walks through all of its keys.
///
/// # Errors
/// [`Error::Unfit`]: this Redis would not let the deployment be removed whole, or is a cluster, so none was created.
/// Redis cannot be used.
pub async fn isolated<T>(
    link: impl Into<LinkSettings>,
    shards: ShardCount,
    test: impl AsyncFnOnce(&Isolated) -> T,
) -> Result<T, Error> {
    let queue = Isolated::create(link.into(), shards).await?;
    let ended = AssertUnwindSafe(test(&queue)).catch_unwind().await;
    queue.remove().await?;
    Ok(ended.unwrap_or_else(|panic| resume_unwind(panic)))
}

// === impl Isolated ===

impl Isolated {
    async fn create(link: LinkSettings, shards: ShardCount) -> Result<Self, Error> {
        let name = format!("test-{:016x}", fastrand::u64(..));
        let namespace = Namespace::new(name).expect("hex digits make a namespace");
        let client = Client::new(Settings::new(link).namespace(namespace).shards(shards));
        let owner = Owner::new(client.clone());
        let queue = Self { admin: Admin::new(client.clone()), owner, client };
        queue.remove().await.map_err(|error| {
            Error::Unfit(format!("a test could not remove its deployment, so none is created: {error}"))
        })?;
        queue.admin.init().await?;
        Ok(queue)
    }

    /// Returns the client, for the program under test.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Returns the delayed and ready messages of a topic in the order of due times.
    ///
    /// # Errors
    /// Redis cannot be used.
    pub async fn pending(&self, topic: &Topic) -> Result<Vec<Pending>, Error> {
        let mut pending = Vec::new();
        for state in [ListState::Delayed, ListState::Ready] {
            let listing = Listing::Topic { topic, state, range: TimeRange::ALL };
            let (mut page, mut next) = (self.admin.page(listing, None, MAX_IDS_A_CALL).await?, None);
            loop {
                pending.extend(page.messages.into_iter().filter_map(|listed| {
                    let envelope = listed.envelope.ok()?;
                    let (due, payload, headers) = (envelope.due, envelope.payload, envelope.headers);
                    Some(Pending { id: listed.id, due, payload, group: listed.group, headers })
                }));
                std::mem::swap(&mut next, &mut page.next);
                let Some(after) = &next else { break };
                page = self.admin.page(listing, Some(after), MAX_IDS_A_CALL).await?;
            }
        }
        pending.sort_by_key(|one| one.due);
        Ok(pending)
    }

    /// Makes all delayed messages of a topic ready now, and returns the number.
    ///
    /// # Errors
    /// Redis cannot be used.
    pub async fn promote_all(&self, topic: &Topic) -> Result<u64, Error> {
        let before = self.admin.topic(topic).count().await?.delayed;
        self.pump().await?;
        self.admin.promote(topic, &PromoteOptions::default(), |_| {}).await?;
        Ok(before - self.admin.topic(topic).count().await?.delayed)
    }

    /// Makes everything ready that is due by now, as a timer does.
    async fn pump(&self) -> Result<(), Error> {
        for shard in self.shards() {
            let Claimed::Mine { epoch, .. } = self.owner.claim(&[shard], OWNER, LOCK).await.remove(0)? else {
                continue;
            };
            let step = [(shard, Some(epoch))];
            while self.owner.pump(&step, MAX_IDS_A_CALL as u16, None).await.remove(0)?.word == PumpWord::More
            {
            }
        }
        Ok(())
    }

    fn shards(&self) -> Vec<ShardId> {
        self.client.shards().shards().collect()
    }

    /// Removes all keys. Without their `meta`, scripts write nothing more.
    async fn remove(&self) -> Result<(), Error> {
        let link = self.client.calls.nodes().only();
        let link = link.ok_or_else(|| Error::Unfit("a test needs one Redis, not a cluster".to_owned()))?;
        let mut unlink = redis::cmd("UNLINK");
        for shard in self.shards() {
            unlink.arg(self.client.calls.keys().meta(shard));
        }
        let _: u64 = link.query("UNLINK", &unlink).await?;
        let (pattern, mut cursor) = (format!("{{{}:*", self.client.namespace()), 0_u64);
        loop {
            let mut scan = redis::cmd("SCAN");
            scan.arg(cursor).arg("MATCH").arg(&pattern).arg("COUNT").arg(KEYS_A_STEP);
            let (next, keys): (u64, Vec<Vec<u8>>) = link.query("SCAN", &scan).await?;
            if !keys.is_empty() {
                let _: u64 = link.query("UNLINK", redis::cmd("UNLINK").arg(keys)).await?;
            }
            if next == 0 {
                return Ok(());
            }
            cursor = next;
        }
    }
}
