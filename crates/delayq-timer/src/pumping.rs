//! The timer's loop: wait, send what is due, take what comes back.

use crate::aim::Aim;
use crate::alarm::Alarm;
use crate::codes::MEMBER;
use crate::config::TimerConfig;
use crate::events::{
    Blocked, ClockJumped, ClockSteady, Fenced, LockedOut, Owned, Parted, RedisBack, RedisLost, Rescued,
    ShardMissing, Stopped, TrustChanged,
};
use crate::guard::{Comparison, Guard, Verdict};
use crate::holding::Holding;
use crate::metrics::TimerMetrics;
use crate::owning::Owning;
use crate::schedule::{Answer, Round, Schedule};
use crate::timer::CLAIMS_A_CALL;
use delayq_cluster::{ClusterError, DrainReport, Handle, Lost, Ownership, OwnershipChange, Trust};
use delayq_core::{
    Claimed, Client, Error, Heard, HoldAnswer, Listener, Overview, PumpReport, PumpWord, ShardCount, ShardId,
    UnixMicros,
};
use delayq_service::{Condition, Fault, Shutdown};
use futures_util::{StreamExt, stream::FuturesUnordered};
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::time::{Duration, Instant};
use tokio::time::timeout;

/// How long handing everything over may take; then the leases and the epochs do it.
const HAND_OVER: Duration = Duration::from_secs(3);
/// How long the last calls and the farewell may take.
const FAREWELL: Duration = Duration::from_millis(500);
/// How often a shard that cannot be claimed, or whose owner is in doubt, is tried again.
const CLAIM_RETRY: Duration = Duration::from_millis(500);
/// How often the clock is compared while it is not trusted.
const CLOCK_LOOK: Duration = Duration::from_secs(1);
/// While etcd is heard, a shard of another timer is looked at once in so many looks.
const FOREIGN_TURNS: usize = 12;
/// How long a call may be on its way before Redis's clock reads more than is believed possible; then it is asked again.
const ON_THE_WAY: Duration = Duration::from_millis(100);
/// Heard wakes that are taken in one go.
const WAKES_A_STEP: usize = 1024;

/// What the loop is made of.
pub(crate) struct Parts {
    pub(crate) config: TimerConfig,
    pub(crate) client: Client,
    pub(crate) metrics: TimerMetrics,
    pub(crate) condition: Condition,
    pub(crate) alarm: Alarm,
    pub(crate) owner: String,
    /// How long the lock lasts; zero: a group settles who owns what.
    pub(crate) lock: Duration,
    pub(crate) handle: Handle,
    pub(crate) ownership: Ownership,
}

/// The loop's state.
pub(crate) struct Pumping {
    parts: Parts,
    schedule: Schedule,
    owning: Owning,
    holding: Holding,
    aim: Aim,
    guard: Guard,
    listener: Listener,
    work: FuturesUnordered<Work>,
    health: Health,
    next_look: Instant,
    looked: Instant,
    foreign_turn: usize,
    moved: BTreeMap<ShardId, u64>,
    trust: Option<Trust>,
    stopping: Option<Instant>,
    /// Whether the ownership's stream has ended.
    parted: bool,
}

type Work = Pin<Box<dyn Future<Output = Done> + Send>>;

/// Something that was under way.
enum Done {
    Pumped { round: Round, trip: Trip, reports: Vec<Result<PumpReport, Error>> },
    Claimed { shards: Vec<ShardId>, trip: Trip, claims: Vec<Result<Claimed, Error>> },
    Asked { shards: Vec<ShardId>, mine: Result<Vec<ShardId>, ClusterError> },
    Told { shard: ShardId, on: bool, answer: Result<HoldAnswer, Error> },
    Compared { trip: Trip, seen: Vec<Result<Overview, Error>> },
    Foreign { shards: Vec<ShardId>, reports: Vec<Result<PumpReport, Error>> },
    Drained(DrainReport),
}

/// When a call was sent and answered, by the local clock.
#[derive(Clone, Copy)]
struct Trip {
    sent: Instant,
    answered: Instant,
}

/// How Redis is doing, so that a change is told once.
enum Health {
    Starting,
    Well,
    Silent { since: Instant },
    Missing,
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
    pub(crate) fn new(parts: Parts) -> Self {
        let now = Instant::now();
        let config = &parts.config;
        Self {
            schedule: Schedule::new(config.batch, *config.resolution),
            owning: Owning::default(),
            holding: Holding::default(),
            aim: Aim::new(now),
            guard: Guard::new(now, *config.max_clock_step, *config.clock_steady),
            listener: parts.client.listen_for_wakes(Vec::new()),
            work: FuturesUnordered::new(),
            health: Health::Starting,
            next_look: now + *config.look,
            looked: now,
            foreign_turn: 0,
            moved: BTreeMap::new(),
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
        let mut growth = self.parts.client.growth();
        handle.set_shards(growth.shards());
        loop {
            let alarm = self.send_what_is_due();
            let woken = tokio::select! {
                biased;
                Some(done) = self.work.next(), if !self.work.is_empty() => Woken::Done(done),
                change = self.parts.ownership.next(), if !self.parted => Woken::Changed(change),
                shards = growth.next() => Woken::Grown(shards),
                heard = self.listener.next() => Woken::Heard(heard),
                () = self.parts.alarm.wait_until(alarm) => Woken::Alarm,
                name = &mut failed => Woken::Failed(name),
                () = shutdown.requested(), if self.stopping.is_none() => Woken::Shutdown,
            };
            match woken {
                Woken::Done(Done::Drained(report)) => return self.farewell(report).await,
                Woken::Done(done) => self.take(done),
                Woken::Heard(heard) => self.hear(heard),
                Woken::Alarm => self.rang(alarm),
                Woken::Changed(change) => self.change(change),
                // The membership hands the new shards out, to this timer or to another one.
                Woken::Grown(shards) => handle.set_shards(shards),
                Woken::Failed(name) => return Err(Fault::new(&MEMBER, name)),
                Woken::Shutdown => self.drain(),
            }
            self.confirm();
        }
    }

    /// Sends whatever can be sent now. Returns when to try again.
    fn send_what_is_due(&mut self) -> Option<Instant> {
        let now = Instant::now();
        self.claim(now);
        self.ask(now);
        if now >= self.next_look {
            self.look(now);
        }
        if self.may_pump() {
            let aim = &self.aim;
            for round in self.schedule.rounds(now, |due| aim.finds(now, due)) {
                self.pump(round);
            }
        }
        let next = self.schedule.next(now);
        let due = next
            .due
            .map(|due| self.aim.alarm_for(due, now))
            .map(|at| next.not_before.map_or(at, |from| at.max(from)));
        let due = if self.may_pump() { [due, next.anyway] } else { [None, None] };
        due.into_iter().chain([self.owning.next(), Some(self.next_look)]).flatten().min()
    }

    /// Without `strict` whatever is owned is pumped, whether etcd answers or not: the script is safe under two owners.
    fn may_pump(&self) -> bool {
        let trust = self.parts.handle.trust();
        !self.parts.config.strict || trust.is_trusted(tokio::time::Instant::now())
    }

    fn pump(&mut self, round: Round) {
        round.shards.iter().for_each(|&(shard, _)| self.owning.sent(shard));
        let client = self.parts.client.clone();
        let latest = self.guard.latest(Instant::now(), ON_THE_WAY);
        self.work.push(Box::pin(async move {
            let (trip, reports) = Trip::of(client.pump_until(&round.shards, round.limit, latest)).await;
            Done::Pumped { round, trip, reports }
        }));
    }

    fn claim(&mut self, now: Instant) {
        let shards = self.owning.claims(now);
        self.send_claims(&shards);
    }

    /// Claims shards, or renews their locks.
    fn send_claims(&mut self, shards: &[ShardId]) {
        for some in shards.chunks(CLAIMS_A_CALL) {
            some.iter().for_each(|&shard| self.owning.sent(shard));
            let (client, owner, lock) =
                (self.parts.client.clone(), self.parts.owner.clone(), self.parts.lock);
            let shards = some.to_vec();
            self.work.push(Box::pin(async move {
                let (trip, claims) = Trip::of(client.claim(&shards, &owner, lock)).await;
                Done::Claimed { shards, trip, claims }
            }));
        }
    }

    fn ask(&mut self, now: Instant) {
        let shards = self.owning.questions(now);
        if !shards.is_empty() {
            let handle = self.parts.handle.clone();
            self.work.push(Box::pin(async move {
                let mine = handle.still_mine(&shards).await;
                Done::Asked { shards, mine }
            }));
        }
    }

    // --- what comes in

    fn take(&mut self, done: Done) {
        match done {
            Done::Pumped { round, trip, reports } => self.pumped(&round, trip, reports),
            Done::Claimed { shards, trip, claims } => self.claimed(&shards, trip, claims),
            Done::Asked { shards, mine } => self.asked(&shards, mine),
            Done::Told { shard, on, answer } => self.told(shard, on, answer),
            Done::Compared { trip, seen } => self.compared(trip, seen),
            Done::Foreign { shards, reports } => self.foreign(&shards, reports),
            Done::Drained(_) => unreachable!("the loop ends with it"),
        }
    }

    fn pumped(&mut self, round: &Round, trip: Trip, reports: Vec<Result<PumpReport, Error>>) {
        if let Some(first) = reports.iter().find_map(|report| report.as_ref().ok()) {
            self.aim.ran(trip.sent, first.now);
            self.parts.metrics.pipeline(trip.answered - trip.sent);
            self.compare(trip, first.now);
        }
        for (&(shard, epoch), report) in round.shards.iter().zip(reports) {
            self.owning.returned(shard);
            match report {
                Ok(report) => self.report(shard, epoch.unwrap_or(0), &report, trip),
                Err(error) => self.failed(shard, &error, trip.answered),
            }
        }
        self.schedule.returned(round.lane);
    }

    fn report(&mut self, shard: ShardId, epoch: u64, report: &PumpReport, trip: Trip) {
        let now = report.now.millis();
        let due = self.schedule.was_due(shard);
        self.parts.metrics.count(report, due);
        *self.moved.entry(shard).or_default() += report.moved;
        if report.blocked > 0 {
            Blocked { shard, blocked: report.blocked }.emit();
        }
        let answer = Answer { next_due: report.next_due, more: report.word == PumpWord::More, now };
        self.schedule.answered(shard, answer, trip.answered);
        match report.word {
            // What is behind a clock that reads too much, the guard has seen already.
            PumpWord::Pumped | PumpWord::More | PumpWord::NotOverdue | PumpWord::Ahead => {}
            PumpWord::Held => {
                self.holding.is(shard, true);
                self.schedule.stop(shard, true);
                self.tell(trip.answered);
            }
            PumpWord::Fenced(known) => {
                Fenced { shard, epoch, known }.emit(&self.parts.metrics);
                self.schedule.stop(shard, true);
                self.owning.doubt(shard, trip.answered);
            }
        }
        self.well(trip.answered);
    }

    fn claimed(&mut self, shards: &[ShardId], trip: Trip, claims: Vec<Result<Claimed, Error>>) {
        let now = trip.answered;
        let mut clock = None;
        for (&shard, claim) in shards.iter().zip(claims) {
            self.owning.returned(shard);
            if !self.owning.is_given(shard) {
                continue;
            }
            match claim {
                Ok(Claimed::Mine { epoch, now: redis, next_due }) => {
                    clock = clock.or(Some(redis));
                    self.owning.claimed(shard);
                    if self.schedule.epoch(shard) == Some(epoch) {
                        self.schedule.saw(shard, next_due);
                    } else {
                        self.schedule.own(shard, epoch, next_due);
                        Owned { shard, epoch }.emit(&self.parts.metrics);
                    }
                }
                Ok(Claimed::Owned { owner }) => {
                    LockedOut { shard, owner: &owner }.emit(&self.parts.metrics);
                    self.schedule.drop(shard);
                    self.owning.retry(shard, now + *self.parts.config.look);
                    self.parts.condition.unready(format!("{owner} has the lock"));
                }
                Err(error) => self.failed(shard, &error, now),
            }
        }
        if let Some(clock) = clock {
            self.aim.ran_otherwise(trip.sent, clock);
            self.well(now);
            self.compare(trip, clock);
            // A shard taken anew begins without a stop: what is held stays held.
            self.stop_while_jumped();
        }
        self.count_shards();
    }

    fn asked(&mut self, shards: &[ShardId], mine: Result<Vec<ShardId>, ClusterError>) {
        let now = Instant::now();
        match mine {
            Ok(mine) => {
                for &shard in shards {
                    if mine.contains(&shard) {
                        self.owning.retry(shard, now);
                    } else {
                        // Its loss is told by the membership.
                        self.schedule.drop(shard);
                        self.owning.doubt(shard, now + CLAIM_RETRY);
                    }
                }
            }
            Err(error) => {
                tracing::debug!(%error, "etcd does not say whose shards these are");
                shards.iter().for_each(|&shard| self.owning.doubt(shard, now + CLAIM_RETRY));
            }
        }
        self.count_shards();
    }

    fn hear(&mut self, heard: Heard) {
        let mut next = Some(heard);
        for _ in 0..WAKES_A_STEP {
            match next.take().or_else(|| self.listener.try_next()) {
                Some(Heard::Wake(shard, due)) => self.schedule.hear(shard, due),
                Some(Heard::Resync) => {
                    self.parts.metrics.resyncs.inc();
                    self.schedule.look_at_all();
                }
                Some(Heard::Ready(..)) => {}
                None => return,
            }
        }
    }

    fn rang(&mut self, alarm: Option<Instant>) {
        if let Some(aimed) = alarm {
            self.aim.woke(aimed, Instant::now());
        }
    }

    fn change(&mut self, change: Option<OwnershipChange>) {
        let Some(change) = change else {
            self.parted = true;
            return;
        };
        let now = Instant::now();
        if self.trust.as_ref().is_none_or(|before| before.name() != change.trust.name()) {
            TrustChanged { trust: change.trust, strict: self.parts.config.strict }.emit(&self.parts.metrics);
            self.trust = Some(change.trust);
        }
        self.listener.remove(change.lost.iter().map(|lost| lost.shard).collect());
        for lost in change.lost {
            self.lose(lost);
        }
        for &shard in &change.gained {
            self.owning.gain(shard, now);
        }
        if !change.gained.is_empty() {
            self.listener.add(change.gained);
        }
        self.count_shards();
    }

    fn lose(&mut self, lost: Lost) {
        let shard = lost.shard;
        Parted { shard, reason: &lost.reason }.emit(&self.parts.metrics);
        self.schedule.drop(shard);
        self.holding.forget(shard);
        self.moved.remove(&shard);
        self.owning.lose(lost);
    }

    fn confirm(&mut self) {
        let parted = self.owning.parted();
        self.parts.ownership.confirm(&parted);
    }

    // --- the slow net

    /// Looks at every owned shard in one pipeline, renews locks, and sees after what nobody pumps.
    fn look(&mut self, now: Instant) {
        let owned: Vec<ShardId> = self.schedule.owned().map(|(shard, _)| shard).collect();
        if self.parts.lock.is_zero() {
            self.schedule.look_at_all();
        } else {
            // A claim by the owner renews its lock and tells the next due time: a look in one.
            self.send_claims(&owned);
        }
        self.tell(now);
        if self.guard.is_jumped()
            && let Some(&one) = owned.first()
        {
            let client = self.parts.client.clone();
            self.work.push(Box::pin(async move {
                let (trip, seen) = Trip::of(client.overview(&[one])).await;
                Done::Compared { trip, seen }
            }));
        }
        self.look_at_foreign(now);
        self.report_load(now);
        self.count_due(now);
        let pause = *self.parts.config.look;
        self.next_look = now + if self.guard.is_jumped() { pause.min(CLOCK_LOOK) } else { pause };
    }

    /// Pumps other timers' shards without an epoch: that moves only what is overdue by 10 s.
    fn look_at_foreign(&mut self, now: Instant) {
        if !self.parts.lock.is_zero() || self.stopping.is_some() {
            return;
        }
        let heard = matches!(self.trust, Some(Trust::Trusted { .. }));
        let turns = if heard { FOREIGN_TURNS } else { 1 };
        self.foreign_turn = self.foreign_turn.wrapping_add(1);
        let turn = self.foreign_turn % turns;
        let all = self.parts.client.shards().shards();
        let foreign: Vec<ShardId> =
            all.filter(|&s| !self.owning.is_given(s) && usize::from(s.get()) % turns == turn).collect();
        for some in foreign.chunks(CLAIMS_A_CALL) {
            let (client, limit, shards) = (self.parts.client.clone(), self.parts.config.batch, some.to_vec());
            let latest = self.guard.latest(now, ON_THE_WAY);
            self.work.push(Box::pin(async move {
                let calls: Vec<_> = shards.iter().map(|&shard| (shard, None)).collect();
                Done::Foreign { reports: client.pump_until(&calls, limit, latest).await, shards }
            }));
        }
    }

    fn foreign(&mut self, shards: &[ShardId], reports: Vec<Result<PumpReport, Error>>) {
        let mut more = Vec::new();
        for (&shard, report) in shards.iter().zip(reports) {
            if let Ok(report) = report
                && report.word != PumpWord::NotOverdue
                && report.moved + report.returned + report.expired > 0
            {
                self.parts.metrics.count(&report, true);
                Rescued { shard, moved: report.moved }.emit(&self.parts.metrics);
                more.push((shard, None));
            }
        }
        if !more.is_empty() && self.stopping.is_none() {
            let (client, limit) = (self.parts.client.clone(), self.parts.config.batch);
            let latest = self.guard.latest(Instant::now(), ON_THE_WAY);
            self.work.push(Box::pin(async move {
                let shards = more.iter().map(|&(shard, _)| shard).collect();
                Done::Foreign { reports: client.pump_until(&more, limit, latest).await, shards }
            }));
        }
    }

    fn report_load(&mut self, now: Instant) {
        let seconds = now.saturating_duration_since(self.looked).as_secs_f64().max(0.1);
        let per_second = std::mem::take(&mut self.moved);
        let per_second =
            per_second.into_iter().map(|(shard, moved)| (shard, (moved as f64 / seconds) as u64)).collect();
        self.parts.handle.report_load(&per_second);
        self.looked = now;
    }

    fn count_due(&self, now: Instant) {
        let next = self.schedule.earliest().map_or(0.0, |due| due.get() as f64 / 1000.0);
        let overdue = match self.aim.reach_us(now) {
            Some(redis) if next > 0.0 => (redis as f64 / 1e6 - next).max(0.0),
            _ => 0.0,
        };
        self.parts.metrics.next_due.set(next);
        self.parts.metrics.oldest_overdue.set(overdue);
    }

    fn count_shards(&self) {
        let shards = self.schedule.owned().count();
        self.parts.metrics.shards.set(i64::try_from(shards).unwrap_or(i64::MAX));
    }

    // --- the clock

    fn compared(&mut self, trip: Trip, seen: Vec<Result<Overview, Error>>) {
        if let Some(Ok(seen)) = seen.into_iter().next() {
            self.compare(trip, seen.now);
        }
    }

    fn compare(&mut self, trip: Trip, ran: UnixMicros) {
        match self.guard.compare(Comparison { sent: trip.sent, ran, answered: trip.answered }) {
            Verdict::Fits => {}
            Verdict::Jumped(by_us) => {
                ClockJumped { by_us, shards: self.schedule.owned().count() }.emit(&self.parts.metrics);
                self.parts.condition.unready("Redis's clock jumped: its shards are held");
                self.stop_while_jumped();
                self.next_look = self.next_look.min(trip.answered + CLOCK_LOOK);
            }
            Verdict::Steady => {
                ClockSteady.emit(&self.parts.metrics);
                self.parts.condition.ready();
                self.tell(trip.answered);
            }
        }
    }

    fn stop_while_jumped(&mut self) {
        if self.guard.is_jumped() {
            let owned: Vec<ShardId> = self.schedule.owned().map(|(shard, _)| shard).collect();
            owned.iter().for_each(|&shard| self.schedule.stop(shard, true));
            self.tell(Instant::now());
        }
    }

    /// Sets and ends the holds that the clock asks for.
    fn tell(&mut self, now: Instant) {
        let owned: Vec<ShardId> = self.schedule.owned().map(|(shard, _)| shard).collect();
        for (shard, on) in self.holding.tell(&owned, self.guard.is_jumped(), self.guard.is_proven(now)) {
            let Some(epoch) = self.schedule.epoch(shard) else { continue };
            let client = self.parts.client.clone();
            self.owning.sent(shard);
            self.work.push(Box::pin(async move {
                let answer = client.hold(shard, epoch, on).await;
                Done::Told { shard, on, answer }
            }));
        }
    }

    fn told(&mut self, shard: ShardId, on: bool, answer: Result<HoldAnswer, Error>) {
        self.owning.returned(shard);
        self.holding.told(shard, matches!(answer, Ok(HoldAnswer::Done)));
        match answer {
            Ok(HoldAnswer::Done) => self.schedule.stop(shard, on || self.guard.is_jumped()),
            Ok(HoldAnswer::Fenced(known)) => {
                let epoch = self.schedule.epoch(shard).unwrap_or(0);
                Fenced { shard, epoch, known }.emit(&self.parts.metrics);
                self.owning.doubt(shard, Instant::now());
            }
            Err(error) => tracing::debug!(%shard, %error, on, "the hold is told again at the next look"),
        }
    }

    // --- how Redis is doing

    fn failed(&mut self, shard: ShardId, error: &Error, now: Instant) {
        self.parts.metrics.failed_calls.inc();
        match error {
            Error::Uninitialised(_) | Error::Layout { .. } | Error::Deployment(_) => {
                self.schedule.drop(shard);
                self.owning.retry(shard, now + *self.parts.config.look);
                if !matches!(self.health, Health::Missing) {
                    ShardMissing { shard, error, redis: &self.parts.client.address() }.emit();
                    self.parts.condition.unready(error.to_string());
                    self.health = Health::Missing;
                }
            }
            _ => {
                if self.schedule.epoch(shard).is_some() {
                    self.schedule.failed(shard, now);
                } else {
                    self.owning.retry(shard, now + CLAIM_RETRY);
                }
                if matches!(self.health, Health::Well | Health::Starting) {
                    RedisLost { error }.emit();
                    self.parts.condition.unready("Redis cannot be used");
                    self.health = Health::Silent { since: now };
                }
            }
        }
        self.count_shards();
    }

    fn well(&mut self, now: Instant) {
        match self.health {
            Health::Well => return,
            // One missing shard is enough not to be ready, whatever the others answer.
            Health::Missing if self.owning.is_behind() => return,
            Health::Missing | Health::Starting => {}
            Health::Silent { since } => {
                RedisBack { after: now.saturating_duration_since(since) }.emit();
                self.schedule.look_at_all();
            }
        }
        self.health = Health::Well;
        if !self.guard.is_jumped() {
            self.parts.condition.ready();
        }
    }

    // --- the end

    fn drain(&mut self) {
        self.stopping = Some(Instant::now());
        self.parts.condition.unready("handing over");
        let handle = self.parts.handle.clone();
        self.work.push(Box::pin(async move { Done::Drained(handle.drain(HAND_OVER).await) }));
    }

    /// Waits for the calls that are out, gives locks back, and leaves.
    async fn farewell(mut self, report: DrainReport) -> Result<(), Fault> {
        let rest = async { while self.work.next().await.is_some() {} };
        let _ = timeout(FAREWELL, rest).await;
        if !self.parts.lock.is_zero() {
            // A lock of one millisecond is over when the answer arrives.
            let shards: Vec<ShardId> = self.parts.client.shards().shards().collect();
            for some in shards.chunks(CLAIMS_A_CALL) {
                let claims = self.parts.client.claim(some, &self.parts.owner, Duration::from_millis(1));
                let _ = timeout(FAREWELL, claims).await;
            }
        }
        self.parts.handle.leave(FAREWELL).await;
        let took = self.stopping.map_or(report.took, |since| since.elapsed());
        Stopped { took, left_over: report.left_over.len() }.emit();
        Ok(())
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
