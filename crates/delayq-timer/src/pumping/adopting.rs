//! Adopts shards that nobody pumps: this timer claims such a shard against the plan, and pumps until the timer named in
//! the plan claims the shard.

use super::Pumping;
use crate::calls::{Call, Trip};
use crate::events;
use crate::node_id::NodeId;
use delayq::Error;
use delayq::protocol::{Claimed, ShardId};
use std::time::Instant;

// === impl Pumping ===

impl Pumping {
    /// Claims shards that may be orphans: Redis refuses the claim of a shard that its owner pumps.
    pub(super) fn adopt(&mut self, shards: Vec<ShardId>, now: Instant) {
        let (orphans, others): (Vec<_>, Vec<_>) =
            shards.into_iter().partition(|&shard| self.may_adopt(shard));
        others.into_iter().for_each(|shard| self.foreign.failed(shard, now));
        for (node, some) in self.nodes.apart(&orphans) {
            self.send_all(Call::adoptions(node, &some));
        }
    }

    /// Operators' decisions hold even if nobody pumps: a drained timer takes no shard, and a shard that the plan gives
    /// to nobody stays with nobody.
    fn may_adopt(&self, shard: ShardId) -> bool {
        let view = self.fleet.handle().view();
        !view.drained
            && !view.nobodys.contains(&shard)
            && !self.health.is_out_of_reach(self.nodes.of(shard), shard)
    }

    pub(super) fn adopted(
        &mut self,
        (node, shards): (NodeId, &[ShardId]),
        trip: Trip,
        claims: Vec<Result<Claimed, Error>>,
    ) {
        let (now, mut clock, mut gained) = (trip.answered, None, Vec::new());
        for (&shard, claim) in shards.iter().zip(claims) {
            match claim {
                Ok(Claimed::Mine { epoch, now: redis, next_due }) => {
                    clock = clock.or(Some(redis));
                    events::adopted(&self.metrics, shard, epoch);
                    self.owning.adopted(shard, now);
                    self.own(shard, epoch, next_due);
                    gained.push(shard);
                }
                Ok(Claimed::Owned { .. }) => self.foreign.refused(shard, now),
                Err(error) => {
                    self.foreign.failed(shard, now);
                    self.unanswered(node, &error, now);
                }
            }
        }
        self.granted(node, trip, clock);
        if !gained.is_empty() {
            self.listen(gained, now);
            self.count_shards();
        }
    }
}
