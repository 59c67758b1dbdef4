//! The timer's loop: wait, send due calls, receive answers.
//!
//! Each kind of knowledge has its own type: due shards ([`Schedule`]), the moment to send ([`Aim`](crate::aim::Aim))
//! and trust in the clock ([`ClockWatch`](crate::clock_watch::ClockWatch)), both for each of the [`Nodes`], the health
//! of Redis ([`RedisHealth`]), ownership of shards ([`Owning`]), the slow net's questions ([`SafetyPoll`],
//! [`Foreign`]). These types return [`Call`]s; only [`Pumping::send`] sends.

mod adopting;
mod answers;
mod judging;
mod owners;
mod polls;
mod standing;

use crate::aim::Shot;
use crate::alarm::Alarm;
use crate::books::Books;
use crate::calls::{Answer, Call, Calls};
use crate::codes::MEMBER;
use crate::config::TimerConfig;
use crate::fleet::Fleet;
use crate::foreign::Foreign;
use crate::forgetting::Forgetting;
use crate::guard::Guard;
use crate::metrics::TimerMetrics;
use crate::nodes::{Node, Nodes};
use crate::progress::{Progress, Stall};
use crate::redis_health::RedisHealth;
use crate::safety_poll::SafetyPoll;
use crate::schedule::Schedule;
use crate::survey::Surveys;
use crate::sweeping::FIRST;
use crate::wakes::Wakes;
use delayq::protocol::{Growth, Notification, Owner, ShardId};
use delayq::{Client, ShardCount};
use delayq_cluster::{Handle, OwnershipView, Owning};
use delayq_service::{Condition, Fault, Heartbeat, Shutdown};
use standing::Reported;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// Maximum time to spin after waking, until the moment to send.
const AWAKE: Duration = Duration::from_micros(150);
/// Maximum time between two turns: each turn is a sign of life.
const BEAT: Duration = Duration::from_secs(1);
/// How long the loop rests after an alarm that sent nothing and is due again. Every alarm should send something; this
/// rest bounds the cost of a mistake.
const IN_VAIN: Duration = Duration::from_millis(5);

pub(crate) struct Parts {
    pub(crate) config: TimerConfig,
    pub(crate) client: Client,
    pub(crate) metrics: TimerMetrics,
    pub(crate) condition: Condition,
    pub(crate) owner: String,
    /// How long the lock lasts; zero: the fleet settles the ownership.
    pub(crate) lock: Duration,
    pub(crate) handle: Handle,
    /// True while this timer has to sweep.
    pub(crate) sweeps: watch::Sender<bool>,
}

pub(crate) struct Pumping {
    config: TimerConfig,
    client: Client,
    metrics: TimerMetrics,
    heartbeat: Heartbeat,
    reported: Reported,
    single: bool,
    calls: Calls,
    alarm: Alarm,
    /// The number of calls sent when the alarm rang, if the alarm woke the loop.
    rang_at: Option<u64>,
    schedule: Schedule,
    nodes: Nodes,
    health: RedisHealth,
    owning: Owning,
    poll: SafetyPoll,
    progress: Progress,
    stall: Option<Stall>,
    /// When to judge the progress and report the standing next.
    judged_next: Instant,
    forgetting: Forgetting,
    surveys: Surveys,
    books: Books,
    foreign: Foreign,
    fleet: Fleet,
    wakes: Wakes,
    /// Set if shards were dropped or fenced since the wake-ups to follow were chosen.
    fewer: bool,
    growth: Growth,
    sweeps: watch::Sender<bool>,
    stopping: Option<Instant>,
}

enum Woken {
    Answered(Answer),
    Notified(Notification),
    Alarm,
    Planned(Arc<OwnershipView>),
    Grown(ShardCount),
    Moved,
    Shutdown,
    Failed(&'static str),
}

// === impl Pumping ===

impl Pumping {
    /// Must be called in the runtime that runs the loop.
    pub(crate) fn new(parts: Parts, heartbeat: Heartbeat, alarm: Alarm) -> Self {
        let Parts { config, client, metrics, condition, owner, lock, handle, sweeps } = parts;
        let shards = Owner::new(client.clone());
        let (now, single) = (Instant::now(), !lock.is_zero());
        let guard = Guard::new(now, *config.max_clock_step, *config.clock_steady);
        let mut pumping = Self {
            reported: Reported::new(condition),
            single,
            calls: Calls::new(shards.clone(), handle.clone(), owner, lock, config.batch),
            alarm,
            rang_at: None,
            schedule: Schedule::new(config.batch, *config.resolution),
            nodes: Nodes::new(shards.places(), guard),
            health: RedisHealth::new(single),
            owning: Owning::default(),
            poll: SafetyPoll::new(*config.poll_interval, now),
            progress: Progress::new(now),
            stall: None,
            judged_next: now,
            forgetting: Forgetting::new(*config.forget_topics_after, now),
            books: Books::new(now),
            surveys: Surveys::new(config.horizons.iter().map(|&horizon| *horizon).collect(), now),
            foreign: Foreign::default(),
            fleet: Fleet::new(handle),
            wakes: Wakes::new(&shards),
            fewer: false,
            growth: client.growth(),
            sweeps,
            stopping: None,
            config,
            client,
            metrics,
            heartbeat,
        };
        pumping.place(now);
        pumping
    }

    /// Pumps until shutdown is requested and every shard is handed over.
    pub(crate) async fn run(mut self, shutdown: Shutdown) -> Result<(), Fault> {
        let handle = self.fleet.handle().clone();
        let failed = handle.failed();
        tokio::pin!(failed);
        handle.set_shards(self.growth.shards());
        loop {
            self.heartbeat.beat();
            let shot = self.send_what_is_due();
            let woken = tokio::select! {
                biased;
                answer = self.calls.next() => Woken::Answered(answer),
                view = self.fleet.next() => Woken::Planned(view),
                wake = self.wakes.next() => Woken::Notified(wake),
                () = self.alarm.wait_until(shot.wake) => Woken::Alarm,
                shards = self.growth.next() => Woken::Grown(shards),
                () = self.nodes.changed() => Woken::Moved,
                name = &mut failed => Woken::Failed(name),
                () = shutdown.requested(), if self.stopping.is_none() => Woken::Shutdown,
            };
            self.metrics.turns.inc();
            match woken {
                Woken::Answered(answer) => self.receive(answer),
                Woken::Notified(wake) => self.notified(wake),
                Woken::Alarm => self.rang(shot),
                Woken::Planned(view) => self.follow(&view),
                Woken::Grown(shards) => self.grow(shards),
                // Shards are placed before anything is sent.
                Woken::Moved => {}
                Woken::Failed(name) => return Err(Fault::new(&MEMBER, name)),
                Woken::Shutdown => self.drain(),
            }
            if std::mem::take(&mut self.fewer) {
                self.listen(Vec::new(), Instant::now());
            }
            if self.has_handed_over() {
                return self.farewell().await;
            }
            let standing = self.stands();
            let sweeps = standing.is_well() && self.schedule.is_certain(FIRST);
            self.sweeps.send_if_modified(|before| std::mem::replace(before, sweeps) != sweeps);
            self.reported.report(standing);
        }
    }

    /// Sends every call that is due. Returns when to try again.
    fn send_what_is_due(&mut self) -> Shot {
        let now = Instant::now();
        if self.nodes.is_outdated() {
            self.place(now);
        }
        let wanted = self.owning.claims(now);
        wanted.iter().for_each(|&shard| self.schedule.expect(shard));
        self.claim(&wanted);
        let doubted = self.owning.questions(now);
        self.send_all((!doubted.is_empty()).then_some(Call::Ask(doubted)));
        self.owning.parting_polls(now).into_iter().for_each(|shard| self.schedule.poll(shard));
        self.turn_health(now);
        if self.poll.is_due(now) {
            self.poll(now);
        }
        self.poll_owned(now);
        if now >= self.judged_next {
            self.judged_next = now + BEAT;
            self.judge(now);
        }
        let rounds = self.schedule.rounds(now, |node, due| self.nodes[node].aim.finds(now, due));
        for round in rounds {
            let latest = self.nodes[round.node].clock.latest(now);
            self.send(Call::Pump { round, latest });
        }
        let shot = self.next_shot(now);
        let in_vain = self.rang_at.take() == Some(self.calls.sent()) && shot.wake <= now;
        if in_vain { Shot::at(now + IN_VAIN) } else { shot }
    }

    /// Returns the time of the next turn, if nothing happens before. [`Self::send_what_is_due`] serves each of these
    /// moments in every state: by sending a call, or by asking for a later moment.
    fn next_shot(&self, now: Instant) -> Shot {
        let shards = self.schedule.count();
        let polls = [self.poll.next(shards), self.surveys.next(shards), self.books.next(shards), now + BEAT];
        let others = [self.forgetting.next(shards), self.owning.next(), self.health.next()];
        let others = others.into_iter().chain(polls.map(Some));
        let pumps = self.schedule.next(now).flat_map(|(node, next)| {
            let due = next.due.map(|due| self.nodes[node].aim.shot(due, now));
            let due = due.map(|shot| next.not_before.filter(|&from| from > shot.wake).map_or(shot, Shot::at));
            [due, next.anyway.map(Shot::at)]
        });
        let shots = others.map(|time| time.map(Shot::at)).chain(pumps).flatten();
        shots.min_by_key(|shot| shot.wake).expect("a beat is always due")
    }

    /// Spins for the rest of the time from waking to sending.
    fn rang(&mut self, Shot { wake, send }: Shot) {
        let now = Instant::now();
        self.rang_at = Some(self.calls.sent());
        self.nodes.woke(wake, now);
        if send.saturating_duration_since(now) < AWAKE {
            while Instant::now() < send {
                std::hint::spin_loop();
            }
        }
    }

    /// Sends calls; their answers wake the loop.
    fn send_all(&mut self, calls: impl IntoIterator<Item = Call>) {
        calls.into_iter().for_each(|call| self.send(call));
    }

    fn send(&mut self, call: Call) {
        self.calls.send(call, self.nodes.version());
    }

    /// Claims shards, with separate calls for each node.
    fn claim(&mut self, shards: &[ShardId]) {
        for (node, some) in self.nodes.apart(shards) {
            self.send_all(Call::claims(node, &some));
        }
    }

    /// Sets and ends the holds that the clocks require, and exports whether any clock requires holds.
    fn send_holds(&mut self, now: Instant) {
        self.metrics.clock_held.set(i64::from(self.nodes.is_any_jumped()));
        let due = |(id, node): (_, &mut Node)| node.clock.due(&self.schedule, id, now);
        let holds: Vec<Call> = self.nodes.numbered().flat_map(due).collect();
        self.send_all(holds);
    }

    /// Returns true if this timer owns every shard by a lock, without a fleet.
    const fn is_single(&self) -> bool {
        self.single
    }

    fn count_shards(&self) {
        let shards = self.schedule.count();
        self.metrics.shards.set(i64::try_from(shards).unwrap_or(i64::MAX));
    }
}
