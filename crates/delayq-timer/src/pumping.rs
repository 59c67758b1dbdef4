//! The timer's loop: wait, send what is due, take what comes back.

mod answers;
mod calls;
mod clock;
mod health;
mod look;
mod owners;
mod standing;

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
use crate::rota::{Owned as _, Rota};
use crate::schedule::{Round, Schedule};
use delayq_cluster::{ClusterError, ClusterStats, DrainReport, Handle, Ownership, OwnershipChange, Trust};
use delayq_core::{
    Claimed, Client, Error, Growth, Heard, HoldAnswer, Listener, PumpReport, ShardCount, ShardId, UnixMicros,
};
use delayq_service::{Condition, Fault, Heartbeat, Shutdown};
use futures_util::{StreamExt, stream::FuturesUnordered};
use health::Health;
use standing::Standing;
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::Pin;
use std::time::{Duration, Instant};

/// The longest that is waited out awake, after waking, for the moment to send.
const AWAKE: Duration = Duration::from_micros(150);
/// The longest between two turns: each is a sign of life.
const BEAT: Duration = Duration::from_secs(1);
/// How long an alarm rests that rang for nothing and is over again. Nothing sets one that is not served; this is what a
/// mistake of that kind costs.
const IN_VAIN: Duration = Duration::from_millis(5);

/// What the loop is made of.
pub(crate) struct Parts {
    pub(crate) config: TimerConfig,
    pub(crate) client: Client,
    pub(crate) metrics: TimerMetrics,
    pub(crate) condition: Condition,
    pub(crate) heartbeat: Heartbeat,
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
    /// Whose lock keeps this timer from a shard.
    locked_out: BTreeMap<ShardId, String>,
    /// What the readiness says.
    standing: Standing,
    rota: Rota,
    next_look: Instant,
    looked: Instant,
    /// Whether Redis is being asked for its clock.
    asking_redis: bool,
    /// How many calls and questions went out so far.
    sent: u64,
    /// How many had gone out when the alarm rang, if it was what woke the loop.
    rang_at: Option<u64>,
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
    Seen { trip: Trip, clock: Option<UnixMicros>, wrote: Result<(), Error> },
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
            hindrance: if parts.lock.is_zero() { Hindrance::none() } else { Hindrance::Alone },
            locked_out: BTreeMap::new(),
            standing: Standing::Starting,
            rota: Rota::new(*config.look, now),
            // At once: whoever is given no shard learns Redis's clock, and that it answers, by this look alone.
            next_look: now,
            looked: now,
            asking_redis: false,
            sent: 0,
            rang_at: None,
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
            self.parts.heartbeat.beat();
            let alarm = self.send_what_is_due();
            let woken = tokio::select! {
                biased;
                Some(done) = self.work.next(), if !self.work.is_empty() => Woken::Done(done),
                change = self.parts.ownership.next(), if !self.parted => Woken::Changed(change),
                heard = self.listener.next() => Woken::Heard(heard),
                () = self.alarm.wait_until(Some(alarm.wake)) => Woken::Alarm,
                shards = self.growth.next() => Woken::Grown(shards),
                name = &mut failed => Woken::Failed(name),
                () = shutdown.requested(), if self.stopping.is_none() => Woken::Shutdown,
            };
            self.parts.metrics.turns.inc();
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
            self.tell_standing();
        }
    }

    /// Sends whatever can be sent now. Returns when to try again.
    fn send_what_is_due(&mut self) -> Shot {
        let now = Instant::now();
        self.claim(now);
        self.ask(now);
        self.tell_hindrance(now);
        if now >= self.next_look {
            self.look(now);
        }
        self.look_at_some(now);
        if self.may_pump() {
            let aim = &self.aim;
            for round in self.schedule.rounds(now, |due| aim.finds(now, due)) {
                self.pump(round);
            }
        }
        let shot = self.next_shot(now);
        let in_vain = self.rang_at.take() == Some(self.sent) && shot.wake <= now;
        if in_vain { at(now + IN_VAIN) } else { shot }
    }

    /// When to turn again, if nothing happens before. Whatever asks for a moment here is served by
    /// [`Self::send_what_is_due`] at that moment, in every state: it sends something, or asks for a later one.
    fn next_shot(&self, now: Instant) -> Shot {
        let rota = self.rota.next(self.schedule.count());
        let others = [self.owning.next(), self.hindrance.next(), Some(self.next_look), Some(rota)];
        let mut pumps = [None, None];
        if self.may_pump() {
            let next = self.schedule.next(now);
            let due = next.due.map(|due| self.aim.shot(due, now));
            let due = due.map(|shot| next.not_before.filter(|&from| from > shot.wake).map_or(shot, at));
            pumps = [due, next.anyway.map(at)];
        }
        let shots = others.map(|time| time.map(at)).into_iter().chain(pumps).flatten();
        shots.chain([at(now + BEAT)]).min_by_key(|shot| shot.wake).expect("a beat is always due")
    }

    /// Waits out, awake, what is left from waking to sending.
    fn rang(&mut self, Shot { wake, send }: Shot) {
        let now = Instant::now();
        self.rang_at = Some(self.sent);
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

    /// Sends a call, or asks a question; what comes back wakes the loop.
    fn send(&mut self, call: impl Future<Output = Done> + 'static) {
        self.sent += 1;
        self.work.push(Box::pin(call));
    }

    fn count_shards(&self) {
        let shards = self.schedule.count();
        self.parts.metrics.shards.set(i64::try_from(shards).unwrap_or(i64::MAX));
    }
}

fn at(at: Instant) -> Shot {
    Shot { wake: at, send: at }
}

// === impl Trip ===

impl Trip {
    async fn of<T>(call: impl Future<Output = T>) -> (Self, T) {
        let sent = Instant::now();
        let answer = call.await;
        (Self { sent, answered: Instant::now() }, answer)
    }
}
