//! The timer's loop: wait, send what is due, take what comes back.

mod answers;
mod calls;
mod clock;
mod health;
mod look;
mod owners;

use crate::aim::{Aim, Shot};
use crate::alarm::Alarm;
use crate::codes::MEMBER;
use crate::config::TimerConfig;
use crate::foreign::Foreign;
use crate::guard::Guard;
use crate::hindrance::Hindrance;
use crate::holding::Holding;
use crate::metrics::TimerMetrics;
use crate::owning::Owning;
use crate::schedule::{Round, Schedule};
use delayq_cluster::{ClusterError, ClusterStats, DrainReport, Handle, Ownership, OwnershipChange, Trust};
use delayq_core::{
    Claimed, Client, Error, Growth, Heard, HoldAnswer, Listener, Overview, PumpReport, ShardCount, ShardId,
};
use delayq_service::{Condition, Fault, Shutdown};
use futures_util::{StreamExt, stream::FuturesUnordered};
use health::Health;
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::Pin;
use std::time::{Duration, Instant};

/// The longest that is waited out awake, after waking, for the moment to send.
const AWAKE: Duration = Duration::from_micros(150);

/// What the loop is made of.
pub(crate) struct Parts {
    pub(crate) config: TimerConfig,
    pub(crate) client: Client,
    pub(crate) metrics: TimerMetrics,
    pub(crate) condition: Condition,
    pub(crate) owner: String,
    /// How long the lock lasts; zero: a group settles who owns what.
    pub(crate) lock: Duration,
    pub(crate) handle: Handle,
    pub(crate) ownership: Ownership,
}

/// The loop's state.
pub(crate) struct Pumping {
    parts: Parts,
    alarm: Alarm,
    schedule: Schedule,
    owning: Owning,
    foreign: Foreign,
    holding: Holding,
    aim: Aim,
    guard: Guard,
    growth: Growth,
    listener: Listener,
    listening: BTreeSet<ShardId>,
    work: FuturesUnordered<Work>,
    health: Health,
    hindrance: Hindrance,
    next_look: Instant,
    looked: Instant,
    moved: BTreeMap<ShardId, u64>,
    counted: ClusterStats,
    trust: Option<Trust>,
    stopping: Option<Instant>,
    /// Whether the ownership's stream has ended.
    parted: bool,
}

type Work = Pin<Box<dyn Future<Output = Done>>>;

/// Something that was under way.
enum Done {
    Pumped { round: Round, trip: Trip, reports: Vec<Result<PumpReport, Error>> },
    Claimed { shards: Vec<ShardId>, trip: Trip, claims: Vec<Result<Claimed, Error>> },
    Asked { shards: Vec<ShardId>, mine: Result<Vec<ShardId>, ClusterError> },
    Told { shard: ShardId, on: bool, answer: Result<HoldAnswer, Error> },
    Seen { trip: Trip, seen: Vec<Result<Overview, Error>> },
    Foreign { shards: Vec<ShardId>, trip: Trip, reports: Vec<Result<PumpReport, Error>> },
    Drained(DrainReport),
}

/// When a call was sent and answered, by the local clock.
#[derive(Clone, Copy)]
struct Trip {
    sent: Instant,
    answered: Instant,
}

/// What woke the loop.
enum Woken {
    Done(Done),
    Heard(Heard),
    Alarm,
    Changed(Option<OwnershipChange>),
    Grown(ShardCount),
    Shutdown,
    Failed(&'static str),
}

// === impl Pumping ===

impl Pumping {
    /// To be called in the runtime in which it will run.
    pub(crate) fn new(parts: Parts, alarm: Alarm) -> Self {
        let now = Instant::now();
        let config = &parts.config;
        Self {
            alarm,
            schedule: Schedule::new(config.batch, *config.resolution),
            owning: Owning::default(),
            foreign: Foreign::default(),
            holding: Holding::default(),
            aim: Aim::new(now),
            guard: Guard::new(now, *config.max_clock_step, *config.clock_steady),
            growth: parts.client.growth(),
            listener: parts.client.listen_for_wakes(Vec::new()),
            listening: BTreeSet::new(),
            work: FuturesUnordered::new(),
            health: Health::Starting,
            hindrance: Hindrance::none(),
            next_look: now + *config.look,
            looked: now,
            moved: BTreeMap::new(),
            counted: ClusterStats::default(),
            trust: None,
            stopping: None,
            parted: false,
            parts,
        }
    }

    /// Pumps until shutdown is asked for and everything is handed over.
    pub(crate) async fn run(mut self, shutdown: Shutdown) -> Result<(), Fault> {
        let handle = self.parts.handle.clone();
        let failed = handle.failed();
        tokio::pin!(failed);
        handle.set_shards(self.growth.shards());
        loop {
            let alarm = self.send_what_is_due();
            let wake = alarm.map(|alarm| alarm.wake);
            let woken = tokio::select! {
                biased;
                Some(done) = self.work.next(), if !self.work.is_empty() => Woken::Done(done),
                change = self.parts.ownership.next(), if !self.parted => Woken::Changed(change),
                heard = self.listener.next() => Woken::Heard(heard),
                () = self.alarm.wait_until(wake) => Woken::Alarm,
                shards = self.growth.next() => Woken::Grown(shards),
                name = &mut failed => Woken::Failed(name),
                () = shutdown.requested(), if self.stopping.is_none() => Woken::Shutdown,
            };
            match woken {
                Woken::Done(Done::Drained(report)) => return self.farewell(report).await,
                Woken::Done(done) => self.take(done),
                Woken::Heard(heard) => self.hear(heard),
                Woken::Alarm => self.rang(alarm),
                Woken::Changed(change) => self.change(change),
                Woken::Grown(shards) => self.grow(shards),
                Woken::Failed(name) => return Err(Fault::new(&MEMBER, name)),
                Woken::Shutdown => self.drain(),
            }
            self.confirm();
        }
    }

    /// Sends whatever can be sent now. Returns when to try again.
    fn send_what_is_due(&mut self) -> Option<Shot> {
        let now = Instant::now();
        self.claim(now);
        self.ask(now);
        self.tell_hindrance(now);
        if now >= self.next_look {
            self.look(now);
        }
        if self.may_pump() {
            let aim = &self.aim;
            for round in self.schedule.rounds(now, |due| aim.finds(now, due)) {
                self.pump(round);
            }
        }
        self.next_shot(now)
    }

    fn next_shot(&self, now: Instant) -> Option<Shot> {
        let at = |at: Instant| Shot { wake: at, send: at };
        let others =
            [self.owning.next(), self.hindrance.next(), Some(self.next_look)].map(|time| time.map(at));
        let mut pumps = [None, None];
        if self.may_pump() {
            let next = self.schedule.next(now);
            let due = next.due.map(|due| self.aim.shot(due, now));
            let due = due.map(|shot| next.not_before.filter(|&from| from > shot.wake).map_or(shot, at));
            pumps = [due, next.anyway.map(at)];
        }
        others.into_iter().chain(pumps).flatten().min_by_key(|shot| shot.wake)
    }

    /// Waits out, awake, what is left from waking to sending.
    fn rang(&mut self, alarm: Option<Shot>) {
        let Some(Shot { wake, send }) = alarm else { return };
        let now = Instant::now();
        self.aim.woke(wake, now);
        if send.saturating_duration_since(now) < AWAKE {
            while Instant::now() < send {
                std::hint::spin_loop();
            }
        }
    }

    /// Without `strict` whatever is owned is pumped, whether etcd answers or not: the script is safe under two owners.
    fn may_pump(&self) -> bool {
        let trust = self.parts.handle.trust();
        !self.parts.config.strict || trust.is_trusted(tokio::time::Instant::now())
    }

    fn count_shards(&self) {
        let shards = self.schedule.owned().count();
        self.parts.metrics.shards.set(i64::try_from(shards).unwrap_or(i64::MAX));
    }
}

// === impl Trip ===

impl Trip {
    async fn of<T>(call: impl Future<Output = T>) -> (Self, T) {
        let sent = Instant::now();
        let answer = call.await;
        (Self { sent, answered: Instant::now() }, answer)
    }
}
