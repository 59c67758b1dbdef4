//! The loop's calls, and their answers.

use crate::forgetting::ForgettingPage;
use crate::survey::Question;
use delayq::protocol::scheduling::{Hold, NodeId, Round, Trip};
use delayq::protocol::{
    BooksAt, BooksPage, Claimed, ForgottenTopics, HoldAnswer, Owner, Places, PumpReport, ShardId, Survey,
    UnixMicros,
};
use delayq::{Error, UnixMillis};
use delayq_cluster::{ClusterError, Handle};
use futures_util::StreamExt;
use futures_util::future::join_all;
use futures_util::stream::FuturesUnordered;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

/// Maximum shards in one pipeline of claims or rescues: some 10 µs of Redis's time each.
pub(crate) const SHARDS_A_CALL: usize = 64;
/// Lower than any clock: a pump with this limit moves nothing, and reports the due messages.
pub(crate) const NO_LATER: UnixMillis = UnixMillis::new(0);
/// A pump moves nothing if Redis's clock reads more than `latest`.
pub(crate) enum Call {
    Pump {
        round: Round,
        latest: Option<UnixMillis>,
    },
    /// Claims shards of a node, or renews their locks.
    Claim {
        node: NodeId,
        shards: Vec<ShardId>,
    },
    /// Asks etcd for the planned owners of these shards.
    Ask(Vec<ShardId>),
    /// Sets the shard's hold, or ends the hold.
    Hold(Hold),
    /// Asks a node, by this shard, for the node's clock, and whether the node takes writes.
    Probe {
        node: NodeId,
        shard: ShardId,
    },
    /// Asks a node, by this shard, for the node's deployment.
    Verify {
        node: NodeId,
        shard: ShardId,
    },
    /// Pumps other timers' shards of a node without an epoch: such a pump moves only messages overdue by 10 s.
    Rescue {
        node: NodeId,
        shards: Vec<ShardId>,
        latest: UnixMillis,
    },
    /// Claims shards of a node that nobody pumps; Redis refuses the claim of a shard that its owner pumps.
    Adopt {
        node: NodeId,
        shards: Vec<ShardId>,
    },
    Forget(ForgettingPage),
    Survey(Question),
    Books(ShardId, BooksAt),
}

pub(crate) enum Answer {
    Pumped { round: Round, trip: Trip, reports: Vec<Result<PumpReport, Error>> },
    Claimed(Claims),
    Asked { shards: Vec<ShardId>, mine: Result<Vec<ShardId>, ClusterError> },
    Held { shard: ShardId, on: bool, answer: Result<HoldAnswer, Error> },
    Probed { node: NodeId, shard: ShardId, trip: Trip, clock: Option<UnixMicros>, wrote: Result<(), Error> },
    Verified { node: NodeId, said: Result<(), Error> },
    Rescued(Reports),
    Adopted(Claims),
    Forgot { shard: ShardId, answer: Result<ForgottenTopics, Error> },
    Surveyed { shard: ShardId, answer: Result<Survey, Error> },
    Counted { shard: ShardId, answer: Result<BooksPage, Error> },
}

/// A node's answers to claims.
pub(crate) struct Claims {
    pub(crate) node: NodeId,
    pub(crate) shards: Vec<ShardId>,
    pub(crate) trip: Trip,
    pub(crate) claims: Vec<Result<Claimed, Error>>,
}

/// A node's answers to rescues.
pub(crate) struct Reports {
    pub(crate) node: NodeId,
    pub(crate) shards: Vec<ShardId>,
    pub(crate) trip: Trip,
    pub(crate) reports: Vec<Result<PumpReport, Error>>,
}

pub(crate) struct Calls {
    shards: Owner,
    handle: Handle,
    owner: String,
    /// How long the lock lasts; zero: the fleet settles the ownership.
    lock: Duration,
    /// Maximum ids that a rescue moves in a shard.
    batch: u16,
    under_way: FuturesUnordered<Pin<Box<dyn Future<Output = Answer>>>>,
    sent: u64,
    places: Places,
}

// === impl Calls ===

impl Calls {
    pub(crate) fn new(shards: Owner, handle: Handle, owner: String, lock: Duration, batch: u16) -> Self {
        let places = shards.places();
        Self { shards, handle, owner, lock, batch, under_way: FuturesUnordered::new(), sent: 0, places }
    }

    pub(crate) const fn redis(&self) -> &Owner {
        &self.shards
    }

    /// The number of calls sent so far.
    pub(crate) const fn sent(&self) -> u64 {
        self.sent
    }

    /// Pending while no call is in flight. Cancel safe.
    pub(crate) async fn next(&mut self) -> Answer {
        match self.under_way.next().await {
            Some(answer) => answer,
            None => std::future::pending().await,
        }
    }

    pub(crate) async fn settle(&mut self) {
        while self.under_way.next().await.is_some() {}
    }

    /// Gives every shard back that this timer still owns, so that the next owner need not wait.
    pub(crate) async fn give_back(&self) {
        let shards: Vec<ShardId> = self.shards.client().shards().shards().collect();
        let give = |some| self.shards.free(some, &self.owner);
        join_all(shards.chunks(SHARDS_A_CALL).map(give)).await;
    }

    /// `placed` is the version of the places by which the call's shards have their nodes.
    pub(crate) fn send(&mut self, call: Call, placed: u64) {
        self.sent += 1;
        let from = (self.places.clone(), placed);
        let (redis, handle) = (self.shards.clone(), self.handle.clone());
        let (batch, lock) = (self.batch, self.lock);
        self.under_way.push(match call {
            Call::Pump { round, latest } => Box::pin(async move {
                let (trip, reports) = Trip::of(from, redis.pump(&round.shards, round.limit, latest)).await;
                Answer::Pumped { round, trip, reports }
            }),
            Call::Claim { node, shards } => {
                let owner = self.owner.clone();
                Box::pin(async move {
                    let (trip, claims) = Trip::of(from, redis.claim(&shards, &owner, lock)).await;
                    Answer::Claimed(Claims { node, shards, trip, claims })
                })
            }
            Call::Adopt { node, shards } => {
                let owner = self.owner.clone();
                Box::pin(async move {
                    let (trip, claims) = Trip::of(from, redis.adopt(&shards, &owner)).await;
                    Answer::Adopted(Claims { node, shards, trip, claims })
                })
            }
            Call::Ask(shards) => Box::pin(async move {
                let mine = handle.still_mine(&shards).await;
                Answer::Asked { shards, mine }
            }),
            Call::Hold(Hold { shard, epoch, on }) => {
                Box::pin(
                    async move { Answer::Held { shard, on, answer: redis.hold(shard, epoch, on).await } },
                )
            }
            Call::Probe { node, shard } => Box::pin(probe(redis, (node, shard), from)),
            Call::Verify { node, shard } => {
                Box::pin(async move { Answer::Verified { node, said: redis.verify(shard).await } })
            }
            Call::Rescue { node, shards, latest } => Box::pin(async move {
                let calls: Vec<_> = shards.iter().map(|&shard| (shard, None)).collect();
                let (trip, reports) = Trip::of(from, redis.pump(&calls, batch, Some(latest))).await;
                Answer::Rescued(Reports { node, shards, trip, reports })
            }),
            Call::Forget(ForgettingPage { shard, from, quiet }) => Box::pin(async move {
                Answer::Forgot { shard, answer: redis.forget_quiet(shard, from, quiet).await }
            }),
            Call::Survey(Question { shard, page, horizons }) => Box::pin(async move {
                Answer::Surveyed { shard, answer: redis.survey(shard, page, &horizons).await }
            }),
            Call::Books(shard, at) => {
                Box::pin(async move { Answer::Counted { shard, answer: redis.books(shard, at).await } })
            }
        });
    }
}

/// The shard need not be owned. If writes are refused, the pump fails and a second call reads the clock.
async fn probe(redis: Owner, (node, shard): (NodeId, ShardId), from: (Places, u64)) -> Answer {
    let (trip, mut reports) = Trip::of(from.clone(), redis.pump(&[(shard, None)], 1, Some(NO_LATER))).await;
    match reports.remove(0) {
        Ok(report) => Answer::Probed { node, shard, trip, clock: Some(report.now), wrote: Ok(()) },
        Err(error) => {
            let (trip, clock) = Trip::of(from, redis.redis_time(shard)).await;
            Answer::Probed { node, shard, trip, clock: clock.ok(), wrote: Err(error) }
        }
    }
}
