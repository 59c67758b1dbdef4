//! What the loop sends: pumps, claims, and questions to etcd.

use super::{Done, Pumping, Trip};
use crate::owning::CLAIMS_A_CALL;
use crate::schedule::Round;
use delayq_core::ShardId;
use std::time::{Duration, Instant};

/// How long a call may be on its way before Redis's clock reads more than is believed possible; then it is asked again.
pub(super) const ON_THE_WAY: Duration = Duration::from_millis(100);

// === impl Pumping ===

impl Pumping {
    pub(super) fn pump(&mut self, round: Round) {
        round.shards.iter().for_each(|&(shard, _)| self.owning.sent(shard));
        let client = self.parts.client.clone();
        let latest = self.guard.latest(Instant::now(), ON_THE_WAY);
        self.send(async move {
            let (trip, reports) = Trip::of(client.pump_until(&round.shards, round.limit, latest)).await;
            Done::Pumped { round, trip, reports }
        });
    }

    pub(super) fn claim(&mut self, now: Instant) {
        let shards = self.owning.claims(now);
        shards.iter().for_each(|&shard| self.schedule.expect(shard));
        self.send_claims(&shards);
    }

    /// Claims shards, or renews their locks.
    pub(super) fn send_claims(&mut self, shards: &[ShardId]) {
        for some in shards.chunks(CLAIMS_A_CALL) {
            some.iter().for_each(|&shard| self.owning.sent(shard));
            let (client, owner, lock) =
                (self.parts.client.clone(), self.parts.owner.clone(), self.parts.lock);
            let shards = some.to_vec();
            self.send(async move {
                let (trip, claims) = Trip::of(client.claim(&shards, &owner, lock)).await;
                Done::Claimed { shards, trip, claims }
            });
        }
    }

    pub(super) fn ask(&mut self, now: Instant) {
        let shards = self.owning.questions(now);
        if !shards.is_empty() {
            let handle = self.parts.handle.clone();
            self.send(async move {
                let mine = handle.still_mine(&shards).await;
                Done::Asked { shards, mine }
            });
        }
    }
}
