//! Pumps next to a worker: owns shards by locks, until timers claim them.

use super::locks::{LOCK, Locks};
use super::nodes::Nodes;
use super::trip::Trip;
use crate::client::Client;
use crate::clock;
use crate::error::Error;
use crate::growth::Growth;
use crate::listen::{Listener, Notification};
use crate::owner::Owner;
use crate::scheduling::{
    Alarm, Comparison, Found, Guard, Hold, NodeId, Rota, Round, Schedule, Shot, Verdict,
};
use delayq_core::fate::Advice;
use delayq_core::shard::ShardId;
use delayq_core::time::UnixMicros;
use delayq_core::verbs::claim::{Claimed, WORKER};
use delayq_core::verbs::hold::HoldAnswer;
use delayq_core::verbs::pump::{PumpReport, PumpWord};
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// Interval at which every owned shard is pumped, even if nothing is due. Renewals return the next due time twice as
/// often.
const POLL_EVERY: Duration = Duration::from_secs(8);
/// Shards polled at once: a tenth of a millisecond of Redis's time.
const POLLED_AT_ONCE: usize = 8;
/// Maximum ids that one call moves.
const BATCH: u16 = 150;
/// Wakes closer than this are merged into one pipeline.
const RESOLUTION: Duration = Duration::from_micros(300);
/// Largest step of Redis's clock that is trusted, and how long the clock has to be steady after a larger one.
const MAX_CLOCK_STEP: Duration = Duration::from_secs(1);
const CLOCK_STEADY: Duration = Duration::from_secs(10);
/// Interval of the checks of a clock that is not trusted.
const CLOSELY: Duration = Duration::from_secs(1);
/// Maximum shards in one pipeline of claims.
const SHARDS_A_CALL: usize = 64;
/// Maximum time to spin after waking, until the moment to send.
const AWAKE: Duration = Duration::from_micros(150);
/// Maximum time between two turns.
const BEAT: Duration = Duration::from_secs(60);
/// How long the loop rests after an alarm that sent nothing and is due again.
const IN_VAIN: Duration = Duration::from_millis(5);
/// Maximum time for each of two steps at the end: the last calls, and giving the shards back.
const FAREWELL: Duration = Duration::from_millis(500);
/// Maximum bytes of the process's name in the owner's name.
const NAME_BYTES: usize = 100;

/// Pumps next to a worker.
pub(crate) struct WorkersPump {
    owner: Owner,
    name: Arc<str>,
    /// The shards in which messages became ready.
    ready: mpsc::UnboundedSender<ShardId>,
    nodes: Nodes,
    schedule: Schedule,
    polls: Rota,
    locks: Locks,
    /// When to check clocks that are not trusted; `None` while all are.
    checked_next: Option<Instant>,
    /// True if a permanent refusal was reported: no other is reported until a claim is answered.
    is_refused: bool,
    calls: FuturesUnordered<BoxFuture<'static, PumpAnswer>>,
    /// The number of calls sent so far, and the same when the alarm rang, if the alarm woke the loop.
    sent: u64,
    rang_at: Option<u64>,
}

enum PumpAnswer {
    Pumped { round: Round, trip: Trip, reports: Vec<Result<PumpReport, Error>> },
    Claimed { node: NodeId, shards: Vec<ShardId>, trip: Trip, claims: Vec<Result<Claimed, Error>> },
    Held { shard: ShardId, on: bool, answer: Result<HoldAnswer, Error> },
    Clock { node: NodeId, trip: Trip, clock: Option<UnixMicros> },
}

enum Woken {
    Answered(PumpAnswer),
    Notified(Notification),
    Alarm,
    Moved,
    Stopped,
}

// === impl WorkersPump ===

impl WorkersPump {
    /// `ready` receives each shard in which messages became ready.
    pub(crate) fn new(client: &Client, ready: mpsc::UnboundedSender<ShardId>) -> Self {
        let (now, owner) = (clock::steady(), Owner::new(client.apart()));
        Self {
            name: owner_name(&client.name).into(),
            ready,
            nodes: Nodes::new(owner.places(), Guard::new(now, MAX_CLOCK_STEP, CLOCK_STEADY)),
            schedule: Schedule::new(BATCH, RESOLUTION),
            polls: Rota::new(POLL_EVERY, POLLED_AT_ONCE, now),
            locks: Locks::default(),
            checked_next: None,
            is_refused: false,
            calls: FuturesUnordered::new(),
            sent: 0,
            rang_at: None,
            owner,
        }
    }

    /// Pumps until stopped, then gives the shards back. If the future is dropped, the locks end by themselves.
    pub(crate) async fn run(mut self, stopping: CancellationToken) {
        let Some(mut alarm) = alarm(&stopping).await else { return };
        let mut growth = self.owner.client().growth();
        let mut listener = self.owner.listen(growth.shards().shards().collect());
        self.place(clock::steady());
        loop {
            let shot = self.send_what_is_due(clock::steady());
            match self.wait(&mut alarm, shot, (&mut listener, &mut growth), &stopping).await {
                Woken::Answered(answer) => self.receive(answer),
                Woken::Notified(first) => self.notified(first, &mut listener),
                Woken::Alarm => self.rang(shot),
                Woken::Moved => {
                    listener.add(growth.shards().shards().collect());
                    self.place(clock::steady());
                }
                Woken::Stopped => return self.farewell().await,
            }
        }
    }

    async fn wait(
        &mut self,
        alarm: &mut Alarm,
        shot: Shot,
        (listener, growth): (&mut Listener, &mut Growth),
        stopping: &CancellationToken,
    ) -> Woken {
        tokio::select! {
            biased;
            () = stopping.cancelled() => Woken::Stopped,
            Some(answer) = self.calls.next() => Woken::Answered(answer),
            notification = listener.next() => Woken::Notified(notification),
            () = alarm.wait_until(shot.wake) => Woken::Alarm,
            () = self.nodes.changed() => Woken::Moved,
            _ = growth.next() => Woken::Moved,
        }
    }

    /// Places each shard at its current node, and claims shards that a growth added.
    fn place(&mut self, now: Instant) {
        let shards = self.owner.client().shards();
        self.nodes.place(shards, &mut self.schedule, now);
        self.locks.add(shards.shards(), now);
        self.send_holds(now);
    }

    /// Sends every call that is due. Returns when to try again.
    fn send_what_is_due(&mut self, now: Instant) -> Shot {
        if self.nodes.is_outdated() {
            self.place(now);
        }
        let claims = self.locks.take(now);
        claims.iter().for_each(|&shard| self.schedule.expect(shard));
        self.claim(&claims);
        for shard in self.polls.take(&self.schedule, now) {
            self.schedule.poll(shard);
        }
        if self.checked_next.is_some_and(|next| next <= now) {
            self.check_clocks(now);
        }
        let nodes = &self.nodes;
        for round in self.schedule.rounds(now, |node, due| nodes[node].aim.finds(now, due)) {
            self.pump(round, now);
        }
        let shot = self.next_shot(now);
        let in_vain = self.rang_at.take() == Some(self.sent) && shot.wake <= now;
        if in_vain { Shot::at(now + IN_VAIN) } else { shot }
    }

    fn next_shot(&self, now: Instant) -> Shot {
        let others = [self.polls.next(self.schedule.count()), now + BEAT].into_iter();
        let others = others.chain(self.locks.next()).chain(self.checked_next).map(Shot::at);
        let pumps = self.schedule.next(now).flat_map(|(node, next)| next.shots(&self.nodes[node].aim, now));
        others.chain(pumps).min_by_key(|shot| shot.wake).expect("a beat is always due")
    }

    /// Spins for the rest of the time from waking to sending.
    fn rang(&mut self, Shot { wake, send }: Shot) {
        let now = clock::steady();
        self.rang_at = Some(self.sent);
        self.nodes.woke(wake, now);
        if send.saturating_duration_since(now) < AWAKE {
            while clock::steady() < send {
                std::hint::spin_loop();
            }
        }
    }

    fn send(&mut self, call: impl Future<Output = PumpAnswer> + Send + 'static) {
        self.sent += 1;
        self.calls.push(Box::pin(call));
    }

    fn claim(&mut self, shards: &[ShardId]) {
        for (node, shards) in self.nodes.apart(shards) {
            for some in shards.chunks(SHARDS_A_CALL).map(<[ShardId]>::to_vec) {
                let (owner, name, from) = (self.owner.clone(), Arc::clone(&self.name), self.nodes.placed());
                self.send(async move {
                    let (trip, claims) = Trip::of(from, owner.claim(&some, &name, LOCK)).await;
                    PumpAnswer::Claimed { node, shards: some, trip, claims }
                });
            }
        }
    }

    fn pump(&mut self, round: Round, now: Instant) {
        let (owner, from) = (self.owner.clone(), self.nodes.placed());
        let latest = self.nodes.latest(round.node, now);
        self.send(async move {
            let (trip, reports) = Trip::of(from, owner.pump(&round.shards, round.limit, latest)).await;
            PumpAnswer::Pumped { round, trip, reports }
        });
    }

    /// Sets and ends the holds that the clocks require.
    fn send_holds(&mut self, now: Instant) {
        let nodes = self.nodes.numbered();
        let due: Vec<Hold> =
            nodes.flat_map(|(id, node)| self.schedule.holds(id, node.guard.is_proven(now))).collect();
        for Hold { shard, epoch, on } in due {
            let owner = self.owner.clone();
            self.send(
                async move { PumpAnswer::Held { shard, on, answer: owner.hold(shard, epoch, on).await } },
            );
        }
        let is_doubtful = self.nodes.is_any_jumped() || self.schedule.hold_any();
        self.checked_next = is_doubtful.then_some(now + CLOSELY);
    }

    /// Asks each node for its clock, as long as no pump does because shards are held.
    fn check_clocks(&mut self, now: Instant) {
        for (node, shard) in self.nodes.in_use().clone() {
            let (owner, from) = (self.owner.clone(), self.nodes.placed());
            self.send(async move {
                let (trip, clock) = Trip::of(from, owner.redis_time(shard)).await;
                PumpAnswer::Clock { node, trip, clock: clock.ok() }
            });
        }
        self.send_holds(now);
    }

    fn receive(&mut self, answer: PumpAnswer) {
        match answer {
            PumpAnswer::Pumped { round, trip, reports } => self.pumped(&round, trip, reports),
            PumpAnswer::Claimed { node, shards, trip, claims } => {
                self.hear(node, trip, claims.iter().find_map(|claim| clock_of(claim.as_ref().ok()?)));
                for (shard, claim) in shards.into_iter().zip(claims) {
                    self.claimed(shard, trip, claim);
                }
            }
            PumpAnswer::Held { shard, on, answer } => self.held(shard, on, answer),
            PumpAnswer::Clock { node, trip, clock } => {
                self.hear(node, trip, clock);
                if clock.is_some() {
                    // Held shards are not pumped, and stay owned.
                    let here: Vec<ShardId> = self.schedule.owned_at(node).collect();
                    here.into_iter().for_each(|shard| self.locks.pumped(shard, trip.answered));
                }
            }
        }
    }

    fn pumped(&mut self, round: &Round, trip: Trip, reports: Vec<Result<PumpReport, Error>>) {
        if let Some(first) = reports.iter().find_map(|report| report.as_ref().ok()) {
            if !trip.moved {
                self.nodes[round.node].aim.ran(trip.sent, first.now);
            }
            self.hear(round.node, trip, Some(first.now));
        }
        for (&(shard, _), report) in round.shards.iter().zip(reports) {
            match report {
                Ok(report) => self.pumped_one((round.node, shard), &report, trip.answered),
                Err(error) => self.failed((round.node, shard), &error, trip.answered),
            }
        }
        self.schedule.returned(round.node, round.pipeline);
    }

    fn pumped_one(&mut self, (node, shard): (NodeId, ShardId), report: &PumpReport, now: Instant) {
        if report.blocked > 0 {
            tracing::error!(%shard, report.blocked, "a key of the wrong type, or a denied command, keeps messages from being moved");
        }
        if report.moved + report.returned > 0 {
            let _ = self.ready.send(shard);
        }
        let done = report.moved + report.returned + report.buried + report.expired + report.forgotten;
        let early = done + report.blocked == 0 && self.schedule.was_due(shard);
        if self.schedule.answered((node, shard), Found::of(report, early), now).is_none() {
            return;
        }
        match report.word {
            PumpWord::Fenced(known) => return self.fenced(shard, known, now),
            PumpWord::Held => self.send_holds(now),
            PumpWord::Pumped | PumpWord::More | PumpWord::NotOverdue | PumpWord::Ahead => {}
        }
        self.locks.pumped(shard, now);
    }

    fn failed(&mut self, (node, shard): (NodeId, ShardId), error: &Error, now: Instant) {
        self.report(shard, error);
        self.schedule.failed((node, shard), now);
        if error.lacks_shard() {
            self.lose(shard, now);
        }
    }

    /// Handles a call that a newer epoch refused.
    fn fenced(&mut self, shard: ShardId, known: u64, now: Instant) {
        // The answer may belong to a call from before the last claim.
        if self.schedule.epoch(shard).is_some_and(|mine| mine < known) {
            tracing::info!(%shard, "another owner pumps this shard");
            self.lose(shard, now);
        }
    }

    fn lose(&mut self, shard: ShardId, now: Instant) {
        self.schedule.drop(shard);
        self.locks.lost(shard, now);
    }

    fn claimed(&mut self, shard: ShardId, trip: Trip, claim: Result<Claimed, Error>) {
        self.is_refused &= claim.is_err();
        match claim {
            Ok(Claimed::Mine { epoch, next_due, .. }) => {
                self.locks.claimed(shard, trip.sent);
                match self.schedule.epoch(shard) {
                    Some(known) if known >= epoch => {
                        next_due.into_iter().for_each(|due| self.schedule.wake(shard, due));
                    }
                    _ => {
                        tracing::info!(%shard, epoch, "this worker pumps the shard");
                        self.schedule.own(shard, epoch, next_due);
                        // Only a pump reveals whether an earlier owner left the shard held.
                        self.schedule.poll(shard);
                    }
                }
            }
            Ok(Claimed::Owned { owner, lock }) => {
                tracing::debug!(%shard, owner, "another owner pumps this shard");
                self.schedule.drop(shard);
                self.locks.refused(shard, lock, trip.answered);
            }
            Err(error) => {
                self.report(shard, &error);
                if error.lacks_shard() {
                    self.schedule.drop(shard);
                }
                self.locks.failed(shard, trip.answered);
            }
        }
    }

    fn report(&mut self, shard: ShardId, error: &Error) {
        if error.advice() == Advice::GiveUp && !std::mem::replace(&mut self.is_refused, true) {
            tracing::warn!(%shard, %error, "nothing is pumped here until this is put right");
        } else {
            tracing::debug!(%shard, %error, "it could not be pumped");
        }
    }

    fn held(&mut self, shard: ShardId, on: bool, answer: Result<HoldAnswer, Error>) {
        let now = clock::steady();
        self.schedule.settled(shard, matches!(answer, Ok(HoldAnswer::Done)));
        match answer {
            Ok(HoldAnswer::Done) => self.send_holds(now),
            Ok(HoldAnswer::Fenced(known)) => self.fenced(shard, known, now),
            Err(error) => tracing::debug!(%shard, %error, on, "the hold is sent again a second later"),
        }
    }

    /// Learns a node's clock from an answer.
    fn hear(&mut self, node: NodeId, trip: Trip, clock: Option<UnixMicros>) {
        let Some(ran) = clock.filter(|_| !trip.moved) else { return };
        self.nodes[node].aim.ran_otherwise(trip.sent, ran);
        let guard = &mut self.nodes[node].guard;
        let verdict = guard.compare(Comparison { sent: trip.sent, ran, answered: trip.answered });
        let jumped = guard.is_jumped();
        match verdict {
            Verdict::Fits => return,
            Verdict::Jumped(by_us) => {
                let (by_ms, redis) = (by_us / 1000, &self.nodes[node].name);
                tracing::error!(by_ms, redis, "Redis's clock jumped: its shards are held");
            }
            Verdict::Steady => {
                tracing::warn!(
                    redis = self.nodes[node].name,
                    "Redis's clock is steady again: its shards go on"
                );
            }
        }
        self.schedule.jump(node, jumped);
        self.send_holds(trip.answered);
    }

    fn notified(&mut self, first: Notification, listener: &mut Listener) {
        let mut next = Some(first);
        let now = clock::steady();
        while let Some(notification) = next {
            match notification {
                Notification::Wake(shard, due) => self.schedule.wake(shard, due),
                Notification::Freed(shard) => self.locks.freed(shard, now),
                Notification::Resync => {
                    let all: Vec<ShardId> = self.schedule.owned().collect();
                    all.into_iter().for_each(|shard| self.schedule.poll(shard));
                    self.locks.missed_some(now);
                }
                Notification::Ready(..) => {}
            }
            next = listener.try_next();
        }
    }

    /// Waits for the calls in flight, and gives the shards back.
    async fn farewell(mut self) {
        let settled = async { while self.calls.next().await.is_some() {} };
        let _ = timeout(FAREWELL, settled).await;
        let owned: Vec<ShardId> = self.owner.client().shards().shards().collect();
        let give = owned.chunks(SHARDS_A_CALL).map(|some| self.owner.free(some, &self.name));
        let _ = timeout(FAREWELL, futures_util::future::join_all(give)).await;
    }
}

/// Tries until the system has a timer to give; `None` after the stop.
async fn alarm(stopping: &CancellationToken) -> Option<Alarm> {
    loop {
        match Alarm::start() {
            Ok(alarm) => return Some(alarm),
            Err(error) => tracing::error!(%error, "this worker cannot set an alarm: it pumps once it can"),
        }
        tokio::select! {
            () = stopping.cancelled() => return None,
            () = tokio::time::sleep(CLOSELY) => {}
        }
    }
}

/// A name unlike that of any other process or worker.
fn owner_name(name: &str) -> String {
    let printable = name.chars().filter(char::is_ascii_graphic);
    format!("{WORKER}{}-{:08x}", printable.take(NAME_BYTES).collect::<String>(), fastrand::u32(..))
}

fn clock_of(claim: &Claimed) -> Option<UnixMicros> {
    match claim {
        Claimed::Mine { now, .. } => Some(*now),
        Claimed::Owned { .. } => None,
    }
}
