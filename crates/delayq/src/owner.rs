//! Calls of a shard owner: claim shards, pump due messages, forget unused topics.

use crate::books::{self, BooksAt, BooksPage};
use crate::client::Client;
use crate::error::Error;
use crate::listen::Listener;
use crate::places::Places;
use crate::server;
use delayq_core::identity::DeploymentId;
use delayq_core::keys::Channel;
use delayq_core::shard::ShardId;
use delayq_core::time::{UnixMicros, UnixMillis};
use delayq_core::verbs::claim::{self, Claimed};
use delayq_core::verbs::deployment::{identify, read_identity};
use delayq_core::verbs::forget::{self, ForgottenTopics};
use delayq_core::verbs::hold::{self, HoldAnswer};
use delayq_core::verbs::pump::{self, Owned, PumpReport};
use delayq_core::verbs::survey::{self, Survey};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The deployment as seen by an owner of shards, such as a timer. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Owner {
    client: Client,
    /// The marks of the latest pumps, by shard. Kept while another timer owns the shard, because marks only grow.
    marks: Arc<Mutex<BTreeMap<ShardId, UnixMillis>>>,
}

// === impl Owner ===

impl Owner {
    /// Creates an owner over this client's connection.
    pub fn new(client: Client) -> Self {
        Self { client, marks: Arc::default() }
    }

    /// The client.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Listens for earlier due times, on a separate connection.
    pub fn listen(&self, shards: Vec<ShardId>) -> Listener {
        let calls = &self.client.calls;
        Listener::start(calls, Channel::Wake.into(), shards)
    }

    /// Follows the placement of shards on Redis nodes.
    pub fn places(&self) -> Places {
        Places::of(&self.client.calls)
    }

    /// Makes `owner` the owner of these shards in one round trip, each under a new epoch. With a `lock`, a claim is
    /// refused while another owner's lock lasts, and renews the caller's own lock.
    pub async fn claim(
        &self,
        shards: &[ShardId],
        owner: &str,
        lock: Duration,
    ) -> Vec<Result<Claimed, Error>> {
        let of = self.identity(shards).await;
        let calls = shards.iter().map(|&shard| claim::request(shard, owner, lock, of)).collect();
        self.client.calls.ask_all(calls, claim::read).await
    }

    /// Makes `owner` the owner of the orphaned shards among these shards: an [`Owner::pump`] without an epoch moved
    /// something at least 5 s ago, and no owner has pumped the shard since.
    pub async fn adopt(&self, shards: &[ShardId], owner: &str) -> Vec<Result<Claimed, Error>> {
        let of = self.identity(shards).await;
        let calls = shards.iter().map(|&shard| claim::orphaned(shard, owner, of)).collect();
        self.client.calls.ask_all(calls, claim::read).await
    }

    /// Gives these shards back in one round trip, and notifies the workers that watch them. The answer is false for a
    /// shard with another owner.
    pub async fn free(&self, shards: &[ShardId], owner: &str) -> Vec<Result<bool, Error>> {
        let of = self.client.calls.shared_layout().identity();
        let calls = shards.iter().map(|&shard| claim::free(shard, owner, of)).collect();
        self.client.calls.ask_all(calls, claim::read_freed).await
    }

    /// Checks that a shard belongs to the deployment that this client serves: a name may lead to another Redis now.
    ///
    /// # Errors
    /// [`Error::Foreign`] if the shard belongs to another deployment; Redis cannot be used.
    pub async fn verify(&self, shard: ShardId) -> Result<(), Error> {
        let calls = &self.client.calls;
        let found = calls.ask(identify(shard, None), read_identity).await?;
        calls.belongs(shard, found)
    }

    /// Asks the first of these shards if the client does not know the identity.
    async fn identity(&self, shards: &[ShardId]) -> Option<DeploymentId> {
        let calls = &self.client.calls;
        if let (None, Some(&shard)) = (calls.shared_layout().identity(), shards.first())
            && let Ok(found) = calls.ask(identify(shard, None), read_identity).await
        {
            let _ = calls.belongs(shard, found);
        }
        calls.shared_layout().identity()
    }

    /// Stops a shard from making messages ready, or lets the shard continue.
    ///
    /// # Errors
    /// Redis cannot be used. Safe to repeat.
    pub async fn hold(&self, shard: ShardId, epoch: u64, on: bool) -> Result<HoldAnswer, Error> {
        self.client.calls.ask(hold::request(shard, epoch, on), hold::read).await
    }

    /// Moves due messages to the ready queues, in all these shards in one round trip: at most `limit` (1 to 500) ids in
    /// each shard. Safe to repeat after any error.
    ///
    /// Each shard comes with the epoch of the owner. Without an epoch, only long overdue messages are moved. Nothing is
    /// moved if the clock of Redis reads more than `latest`, because that clock may have jumped ahead; the report then
    /// has [`PumpWord::Ahead`](pump::PumpWord::Ahead).
    ///
    /// A pump with an epoch leaves a mark in the shard, and compares the mark of the previous pump by this owner or a
    /// clone. The report's `older` is set if Redis came back with data from before that pump.
    pub async fn pump(
        &self,
        shards: &[(ShardId, Option<u64>)],
        limit: u16,
        latest: Option<UnixMillis>,
    ) -> Vec<Result<PumpReport, Error>> {
        let request = |&(shard, epoch): &(ShardId, Option<u64>)| {
            let mark = self.marks().get(&shard).copied();
            pump::request(shard, epoch.map(|epoch| Owned { epoch, mark }), limit, latest)
        };
        let reports = self.client.calls.ask_all(shards.iter().map(request).collect(), pump::read).await;
        let mut marks = self.marks();
        for ((shard, _), report) in shards.iter().zip(&reports) {
            if let Some(mark) = report.as_ref().ok().and_then(|report| report.mark) {
                let latest = marks.entry(*shard).or_insert(mark);
                *latest = mark.max(*latest);
            }
        }
        drop(marks);
        reports
    }

    fn marks(&self) -> MutexGuard<'_, BTreeMap<ShardId, UnixMillis>> {
        self.marks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets the unused topics in one page of a shard's topics. An unused topic is empty, has no settings, and had no
    /// put for `quiet` (at least a millisecond). The first page begins at 0.
    ///
    /// # Errors
    /// Redis cannot be used; some of the topics may be forgotten. Safe to repeat.
    pub async fn forget_quiet(
        &self,
        shard: ShardId,
        from: u64,
        quiet: Duration,
    ) -> Result<ForgottenTopics, Error> {
        self.client.calls.ask(forget::quiet(shard, from, quiet), forget::read_quiet).await
    }

    /// Counts the work for consumers in a shard. For one page of topics (the first begins at 0), the survey has the
    /// ready messages and their ages. For the whole shard, the survey has the leased messages, and the messages due
    /// within each of these spans (1 to 500 spans of at least a millisecond).
    ///
    /// # Errors
    /// Redis cannot be used.
    pub async fn survey(&self, shard: ShardId, page: u64, spans: &[Duration]) -> Result<Survey, Error> {
        self.client.calls.ask(survey::request(shard, page, spans), survey::read).await
    }

    /// Checks the books of the next topics of a shard: up to 16 topics, each counted at one instant.
    ///
    /// # Errors
    /// Redis cannot be used.
    pub async fn books(&self, shard: ShardId, at: BooksAt) -> Result<BooksPage, Error> {
        books::books(&self.client, shard, at).await
    }

    /// Reads the clock of a shard's Redis. Works on a replica, and on a Redis that refuses writes.
    ///
    /// # Errors
    /// Redis cannot be reached, or does not allow TIME.
    pub async fn redis_time(&self, shard: ShardId) -> Result<UnixMicros, Error> {
        server::redis_time(&self.client.calls, shard).await
    }
}
