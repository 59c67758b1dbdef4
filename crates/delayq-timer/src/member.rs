//! This timer as a member of the fleet: its ownership of shards, other timers' shards, and the wake-ups to listen to.

use crate::calls::{Claims, Reports};
use crate::events;
use crate::fleet::Fleet;
use crate::metrics::TimerMetrics;
use crate::others::Others;
use crate::ownership::{Ownership, claim};
use crate::redises::Redises;
use crate::shards::PumpedShards;
use crate::wakes::Wakes;
use delayq::protocol::scheduling::Nodes;
use delayq::protocol::{Claimed, Growth, Notification, Owner, ShardId};
use delayq::{Client, ShardCount};
use delayq_cluster::{Handle, OwnershipView};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Maximum wakes received in one step.
const WAKES_A_STEP: usize = 1024;

/// This timer as a member of the fleet.
pub(crate) struct Member {
    pub(crate) ownership: Ownership,
    client: Client,
    fleet: Fleet,
    others: Others,
    wakes: Wakes,
    growth: Growth,
    /// Every shard is owned by a lock, without a fleet.
    single: bool,
    metrics: TimerMetrics,
}

/// What a member is told.
pub(crate) enum News {
    Planned(Arc<OwnershipView>),
    Notified(Notification),
    Grown(ShardCount),
}

// === impl Member ===

impl Member {
    /// Must be called in the runtime that runs the loop. `single`: every shard is owned by a lock, without a fleet.
    pub(crate) fn new(
        redis: &Owner,
        handle: Handle,
        single: bool,
        poll_interval: Duration,
        metrics: TimerMetrics,
    ) -> Self {
        let client = redis.client().clone();
        let growth = client.growth();
        handle.set_shards(growth.shards());
        Self {
            ownership: Ownership::new(poll_interval, metrics.clone()),
            fleet: Fleet::new(handle),
            others: Others::new(metrics.clone()),
            wakes: Wakes::new(redis),
            growth,
            single,
            client,
            metrics,
        }
    }

    /// Cancel safe.
    pub(crate) async fn next(&mut self) -> News {
        tokio::select! {
            biased;
            view = self.fleet.next() => News::Planned(view),
            wake = self.wakes.next() => News::Notified(wake),
            shards = self.growth.next() => News::Grown(shards),
        }
    }

    pub(crate) const fn fleet(&self) -> &Fleet {
        &self.fleet
    }

    pub(crate) fn redis_address(&self) -> String {
        self.client.address()
    }

    /// Returns true if this timer owns every shard by a lock, without a fleet.
    pub(crate) const fn is_single(&self) -> bool {
        self.single
    }

    /// Follows a new view of the plan.
    pub(crate) fn follow(&mut self, view: &OwnershipView, shards: &mut PumpedShards) {
        let now = Instant::now();
        self.fleet.trust(view.trust, &self.metrics);
        let gained = self.ownership.follow(view, shards, now);
        self.listen(gained, now);
    }

    /// Follows a growth of the deployment: the plan assigns the new shards.
    pub(crate) fn grow(&mut self, shards: ShardCount) {
        self.fleet.handle().set_shards(shards);
        self.listen(Vec::new(), Instant::now());
    }

    /// Listens to the shards that are pumped here now or soon, and to other timers' shards if few timers share the
    /// shards.
    fn listen(&mut self, gained: Vec<ShardId>, now: Instant) {
        let given: BTreeSet<ShardId> = self.ownership.owning().shards().collect();
        if !self.single {
            let (timers, owning) = (self.other_timers(given.len()), self.ownership.owning());
            let others = self.client.shards().shards().filter(|&shard| owning.is_others(shard));
            self.others.foreign.set(others, timers, now);
        }
        let wanted: BTreeSet<ShardId> = given.into_iter().chain(self.others.foreign.to_listen()).collect();
        self.wakes.follow(wanted, gained);
    }

    /// Chooses the wake-ups to follow again, if shards were dropped or fenced.
    pub(crate) fn listen_to_fewer(&mut self) {
        if self.ownership.take_fewer() {
            self.listen(Vec::new(), Instant::now());
        }
    }

    fn other_timers(&self, given: usize) -> usize {
        self.fleet.others(given, usize::from(self.client.shards().get()))
    }

    pub(crate) fn notified(&mut self, first: Notification, redises: &mut Redises, shards: &mut PumpedShards) {
        let (mut next, now) = (Some(first), Instant::now());
        for _ in 0..WAKES_A_STEP {
            match next.take().or_else(|| self.wakes.try_next()) {
                Some(Notification::Wake(shard, due)) => {
                    shards.schedule.wake(shard, due);
                    let nodes = redises.nodes();
                    let until = nodes.until(nodes.of(shard), due, now);
                    self.others.foreign.wake(shard, now + until);
                }
                Some(Notification::Resync) => {
                    self.metrics.resyncs.inc();
                    shards.poll_all();
                    self.others.foreign.missed_some(now);
                    redises.verify();
                }
                Some(Notification::Ready(..) | Notification::Freed(..)) => {}
                None => return,
            }
        }
    }

    /// Renews the locks on shards of a timer without a fleet: a claim by the owner renews the lock.
    pub(crate) fn renew(&self, shards: &[ShardId], redises: &mut Redises) {
        if self.single {
            claim(shards, redises);
        }
    }

    pub(crate) fn adopted(&mut self, answer: Claims, redises: &mut Redises, shards: &mut PumpedShards) {
        let Claims { node, shards: asked, trip, claims } = answer;
        let (now, mut clock, mut gained) = (trip.answered, None, Vec::new());
        for (shard, claim) in asked.into_iter().zip(claims) {
            match claim {
                Ok(Claimed::Mine { epoch, now: redis, next_due }) => {
                    clock = clock.or(Some(redis));
                    events::adopted(&self.metrics, shard, epoch);
                    self.ownership.adopt(shard, (epoch, next_due), shards, now);
                    gained.push(shard);
                }
                Ok(Claimed::Owned { .. }) => self.others.foreign.refused(shard, now),
                Err(error) => {
                    self.others.foreign.failed(shard, now);
                    redises.unanswered(node, &error, now);
                }
            }
        }
        self.ownership.granted((node, trip, clock), redises, shards);
        if !gained.is_empty() {
            self.listen(gained, now);
        }
    }

    /// Checks other timers' shards, and counts the membership's events.
    pub(crate) fn check(&mut self, redises: &mut Redises, owned: usize, now: Instant) {
        if !self.single {
            self.others.check(&self.fleet, self.other_timers(owned), redises, now);
        }
        self.fleet.count(&self.metrics);
    }

    pub(crate) fn rescued(&mut self, answer: Reports, redises: &mut Redises, shards: &mut PumpedShards) {
        let is_behind = self.ownership.owning().is_behind();
        self.others.rescued(answer, is_behind, redises, shards);
    }

    /// Exports this timer's place in the fleet.
    pub(crate) fn export(&mut self) {
        self.fleet.show_drain(&self.metrics);
        let handle = self.fleet.handle();
        self.metrics.etcd_refuses_writes.set(i64::from(handle.refusal().is_some()));
        self.metrics.leader.set(i64::from(handle.leads()));
    }

    /// How long the first message that nobody pumps has been overdue in other timers' shards.
    pub(crate) fn overdue_elsewhere(&self, nodes: &Nodes, now: Instant) -> Duration {
        let others = self.others.foreign.overdue(self.fleet.is_unled());
        others.map(|(shard, due)| nodes.overdue(nodes.of(shard), due, now)).max().unwrap_or_default()
    }

    /// Asks for other owners; this timer pumps each shard until the new owner fences the shard.
    pub(crate) fn drain(&mut self) {
        self.others.leave();
        self.fleet.handle().drain();
    }
}
