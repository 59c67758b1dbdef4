//! The ownership of shards: carries out the plan by claims, handles fences, and drops lost shards.

use crate::calls::{Call, Claims};
use crate::events;
use crate::metrics::TimerMetrics;
use crate::redises::Redises;
use crate::shards::PumpedShards;
use delayq::protocol::scheduling::{NodeId, Trip};
use delayq::protocol::{Claimed, ShardId, UnixMicros};
use delayq::{Error, UnixMillis};
use delayq_cluster::{ClusterError, OwnershipView, Owning};
use std::time::{Duration, Instant};

/// How long until etcd is asked again about a shard in doubt.
const ASK_RETRY: Duration = Duration::from_millis(500);
/// How long until a failed claim is tried again.
const CLAIM_RETRY: Duration = Duration::from_millis(500);
/// How long until a missing shard is looked for again, and so the maximum wait of a restored shard.
const MISSING_RETRY: Duration = Duration::from_secs(2);

/// The ownership of shards.
pub(crate) struct Ownership {
    owning: Owning,
    /// Set if shards were dropped, fenced or confirmed since the wake-ups to follow were chosen.
    fewer: bool,
    /// How long until a claim that a lock refused is tried again.
    poll_interval: Duration,
    metrics: TimerMetrics,
}

// === impl Ownership ===

impl Ownership {
    pub(crate) fn new(poll_interval: Duration, metrics: TimerMetrics) -> Self {
        Self { owning: Owning::default(), fewer: false, poll_interval, metrics }
    }

    pub(crate) const fn owning(&self) -> &Owning {
        &self.owning
    }

    /// Returns true if the wake-ups to follow must be chosen again.
    pub(crate) fn take_fewer(&mut self) -> bool {
        std::mem::take(&mut self.fewer)
    }

    /// Follows a new view of the plan. Returns the shards to claim.
    pub(crate) fn follow(
        &mut self,
        view: &OwnershipView,
        shards: &mut PumpedShards,
        now: Instant,
    ) -> Vec<ShardId> {
        let turn = self.owning.follow(view, now);
        for shard in turn.gone {
            events::parted(shard);
            self.let_go(shard, shards);
        }
        turn.gained
    }

    /// Sends the claims of planned shards and the questions about doubted shards, and polls parting shards.
    pub(crate) fn ask(&mut self, redises: &mut Redises, shards: &mut PumpedShards, now: Instant) {
        let wanted = self.owning.claims(now);
        wanted.iter().for_each(|&shard| shards.schedule.expect(shard));
        claim(&wanted, redises);
        let doubted = self.owning.questions(now);
        redises.send((!doubted.is_empty()).then_some(Call::Ask(doubted)));
        self.owning.parting_polls(now).into_iter().for_each(|shard| shards.schedule.poll(shard));
    }

    pub(crate) fn claimed(&mut self, answer: Claims, redises: &mut Redises, shards: &mut PumpedShards) {
        let Claims { node, shards: asked, trip, claims } = answer;
        let (now, mut clock) = (trip.answered, None);
        for (shard, claim) in asked.into_iter().zip(claims) {
            match claim {
                Ok(Claimed::Mine { epoch, now: redis, next_due }) => {
                    clock = clock.or(Some(redis));
                    redises.health.has(shard, now);
                    if self.owning.claimed(shard, now) {
                        shards.own(shard, epoch, next_due);
                    }
                }
                Ok(Claimed::Owned { owner, .. }) => {
                    events::locked_out(shard, &owner);
                    shards.schedule.drop(shard);
                    self.owning.locked_out(shard, owner, now + self.poll_interval);
                }
                Err(error) => {
                    self.failed((node, shard), &error, now, shards);
                    redises.lost((node, shard), &error, now);
                }
            }
        }
        self.granted((node, trip, clock), redises, shards);
    }

    /// Owns a shard that nobody pumped.
    pub(crate) fn adopt(
        &mut self,
        shard: ShardId,
        (epoch, next_due): (u64, Option<UnixMillis>),
        shards: &mut PumpedShards,
        now: Instant,
    ) {
        self.owning.adopted(shard, now);
        shards.own(shard, epoch, next_due);
    }

    /// Handles the time of a node's clock when the node granted claims; `None` if no claim was granted.
    pub(crate) fn granted(
        &self,
        (node, trip, clock): (NodeId, Trip, Option<UnixMicros>),
        redises: &mut Redises,
        shards: &mut PumpedShards,
    ) {
        let Some(clock) = clock else { return };
        redises.hear(node, trip, clock, shards);
        redises.well(node, trip, self.owning.is_behind(), shards);
        if redises.nodes().is_any_jumped() {
            redises.send_holds(&mut shards.schedule, trip.answered);
        }
    }

    pub(crate) fn asked(
        &mut self,
        asked: &[ShardId],
        mine: Result<Vec<ShardId>, ClusterError>,
        shards: &mut PumpedShards,
    ) {
        let now = Instant::now();
        let mine = mine
            .inspect_err(|error| tracing::debug!(%error, "etcd does not name the owners of these shards"));
        for &shard in asked {
            match &mine {
                Ok(mine) if mine.contains(&shard) => {
                    self.owning.still_mine(shard, now);
                    // After a fence, the shard counted as another timer's.
                    self.fewer = true;
                }
                Ok(_) => {
                    // A newer plan, which takes this shard away, is on the way.
                    shards.schedule.drop(shard);
                    self.owning.doubt(shard, now + ASK_RETRY);
                }
                Err(_) => self.owning.doubt(shard, now + ASK_RETRY),
            }
        }
    }

    /// Handles a fence of a call under `epoch` by the newer epoch `known`: asks etcd about a shard that is planned for
    /// this timer; any other shard has reached its new owner.
    pub(crate) fn fenced(
        &mut self,
        shard: ShardId,
        (epoch, known): (u64, u64),
        shards: &mut PumpedShards,
        now: Instant,
    ) {
        // The answer belongs to a call from before the last claim.
        if shards.schedule.epoch(shard).is_none_or(|mine| mine >= known) {
            return;
        }
        if self.owning.fenced(shard, now) {
            events::fenced(&self.metrics, shard, epoch, known);
            shards.schedule.doubt(shard, true);
            // The newest owner may be gone, too.
            self.fewer = true;
        } else {
            events::handed_over(&self.metrics, shard, known);
            self.let_go(shard, shards);
        }
    }

    /// Handles a failed call for a shard that is given to this timer.
    pub(crate) fn failed(
        &mut self,
        (node, shard): (NodeId, ShardId),
        error: &Error,
        now: Instant,
        shards: &mut PumpedShards,
    ) {
        self.metrics.call_failed();
        let kept = if error.lacks_shard() {
            shards.schedule.drop(shard);
            self.owning.missing(shard, now + MISSING_RETRY.min(self.poll_interval))
        } else if shards.schedule.epoch(shard).is_none() {
            self.owning.retry(shard, now + CLAIM_RETRY)
        } else {
            shards.failed((node, shard), self.owning.is_given(shard), now);
            true
        };
        if !kept {
            self.let_go(shard, shards);
        }
    }

    /// Stops pumping a shard here.
    fn let_go(&mut self, shard: ShardId, shards: &mut PumpedShards) {
        shards.schedule.drop(shard);
        self.fewer = true;
    }
}

/// Claims shards, with separate calls for each node.
pub(crate) fn claim(shards: &[ShardId], redises: &mut Redises) {
    redises.send_for(shards, |_, node, shards| Call::Claim { node, shards });
}
