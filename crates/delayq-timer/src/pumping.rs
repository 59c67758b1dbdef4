//! The timer's loop: wait, send due calls, receive answers.
//!
//! Three types own what the loop knows: the [`PumpedShards`] pumped here, with their schedule and all that is kept for each of
//! them; the [`Redises`], with their clocks, their health and the calls to them; and this timer as a [`Member`] of the
//! fleet, with its ownership of shards. Shards know nothing of the others, Redises know shards, and a member knows both.

mod answers;
mod judging;
mod standing;

use crate::calls::{Answer, Calls};
use crate::codes::MEMBER;
use crate::config::TimerConfig;
use crate::events;
use crate::member::{Member, News};
use crate::metrics::TimerMetrics;
use crate::redises::Redises;
use crate::shards::PumpedShards;
use crate::sweeping::FIRST;
use delayq::Client;
use delayq::protocol::Owner;
use delayq::protocol::scheduling::{Alarm, Shot};
use delayq_cluster::Handle;
use delayq_service::{Condition, Fault, Heartbeat, Shutdown};
use standing::{Reported, Standing};
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio::time::timeout;

/// Maximum time to spin after waking, until the moment to send.
const AWAKE: Duration = Duration::from_micros(150);
/// Maximum time between two turns: each turn is a sign of life.
const BEAT: Duration = Duration::from_secs(1);
/// How long the loop rests after an alarm that sent nothing and is due again. Every alarm should send something; this
/// rest bounds the cost of a mistake.
const IN_VAIN: Duration = Duration::from_millis(5);
/// How long a stopping timer waits until its shards are fenced.
const HAND_OVER: Duration = Duration::from_secs(3);
/// Maximum time for each of three steps: the last calls, giving the shards back, and the farewell.
const FAREWELL: Duration = Duration::from_millis(500);

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
    shards: PumpedShards,
    redises: Redises,
    member: Member,
    alarm: Alarm,
    /// The number of calls sent when the alarm rang, if the alarm woke the loop.
    rang_at: Option<u64>,
    /// When to judge the progress and report the standing next.
    judged_next: Instant,
    stopping: Option<Instant>,
    reported: Reported,
    sweeps: watch::Sender<bool>,
    heartbeat: Heartbeat,
    metrics: TimerMetrics,
}

enum Woken {
    Answered(Answer),
    News(News),
    Alarm,
    Moved,
    Shutdown,
    Failed(&'static str),
}

// === impl Pumping ===

impl Pumping {
    /// Must be called in the runtime that runs the loop.
    pub(crate) fn new(parts: Parts, heartbeat: Heartbeat, alarm: Alarm) -> Self {
        let Parts { config, client, metrics, condition, owner, lock, handle, sweeps } = parts;
        let (now, single, redis) = (Instant::now(), !lock.is_zero(), Owner::new(client));
        let member = Member::new(&redis, handle.clone(), single, *config.poll_interval, metrics.clone());
        let calls = Calls::new(redis, handle, owner, lock, config.batch);
        let mut pumping = Self {
            shards: PumpedShards::new(&config, metrics.clone(), now),
            redises: Redises::new(&config, calls, single, metrics.clone(), now),
            member,
            alarm,
            rang_at: None,
            judged_next: now,
            stopping: None,
            reported: Reported::new(condition),
            sweeps,
            heartbeat,
            metrics,
        };
        pumping.place(now);
        pumping
    }

    /// Pumps until shutdown is requested and every shard is handed over.
    pub(crate) async fn run(mut self, shutdown: Shutdown) -> Result<(), Fault> {
        let handle = self.member.fleet().handle().clone();
        let failed = handle.failed();
        tokio::pin!(failed);
        loop {
            self.heartbeat.beat();
            let shot = self.send_what_is_due();
            let woken = tokio::select! {
                biased;
                answer = self.redises.next() => answer.map_or(Woken::Moved, Woken::Answered),
                news = self.member.next() => Woken::News(news),
                () = self.alarm.wait_until(shot.wake) => Woken::Alarm,
                name = &mut failed => Woken::Failed(name),
                () = shutdown.requested(), if self.stopping.is_none() => Woken::Shutdown,
            };
            self.metrics.turns.inc();
            match woken {
                Woken::Answered(answer) => self.receive(answer),
                Woken::News(news) => self.learn(news),
                Woken::Alarm => self.rang(shot),
                // Shards are placed before anything is sent.
                Woken::Moved => {}
                Woken::Failed(name) => return Err(Fault::new(&MEMBER, name)),
                Woken::Shutdown => self.drain(),
            }
            self.member.listen_to_fewer();
            self.shards.count();
            if self.has_handed_over() {
                self.farewell().await;
                return Ok(());
            }
            self.report();
        }
    }

    fn learn(&mut self, news: News) {
        match news {
            News::Planned(view) => self.member.follow(&view, &mut self.shards),
            News::Notified(wake) => self.member.notified(wake, &mut self.redises, &mut self.shards),
            News::Grown(shards) => {
                self.place(Instant::now());
                self.member.grow(shards);
            }
        }
    }

    /// Reports the standing, and tells the sweeps whether this timer has to sweep.
    fn report(&mut self) {
        let standing = self.stands();
        let sweeps = standing.is_well() && self.shards.schedule.is_certain(FIRST);
        self.sweeps.send_if_modified(|before| std::mem::replace(before, sweeps) != sweeps);
        self.reported.report(standing);
    }

    fn stands(&self) -> Standing {
        Standing::of(&self.shards, &self.redises, &self.member, self.stopping.is_some())
    }

    /// Sends every call that is due. Returns when to try again.
    fn send_what_is_due(&mut self) -> Shot {
        let now = Instant::now();
        if self.redises.nodes().is_outdated() {
            self.place(now);
        }
        self.member.ownership.ask(&mut self.redises, &mut self.shards, now);
        if self.redises.turn_health(self.member.ownership.owning(), now) {
            self.register_reach();
        }
        if self.redises.poll(&mut self.shards, now) {
            self.member.check(&mut self.redises, self.shards.schedule.count(), now);
        }
        self.poll_owned(now);
        if now >= self.judged_next {
            self.judged_next = now + BEAT;
            self.judge(now);
        }
        let nodes = self.redises.nodes();
        let rounds = self.shards.schedule.rounds(now, |node, due| nodes[node].aim.finds(now, due));
        self.redises.pump(rounds, now);
        let shot = self.next_shot(now);
        let in_vain = self.rang_at.take() == Some(self.redises.calls.sent()) && shot.wake <= now;
        if in_vain { Shot::at(now + IN_VAIN) } else { shot }
    }

    /// Polls the owned shards whose turn has come, which renews their locks; asks some shards for a survey or their
    /// books, and one shard to forget topics.
    fn poll_owned(&mut self, now: Instant) {
        let polled = self.shards.poll(now);
        self.member.renew(&polled, &mut self.redises);
        let nodes = self.redises.nodes();
        let is_trusted = |shard| !nodes[nodes.of(shard)].guard.is_jumped();
        let questions = self.shards.questions(is_trusted, now);
        self.redises.send(questions);
    }

    /// Returns the time of the next turn, if nothing happens before. [`Self::send_what_is_due`] serves each of these
    /// moments in every state: by sending a call, or by asking for a later moment.
    fn next_shot(&self, now: Instant) -> Shot {
        let others = self.shards.next().chain(self.redises.next_moment());
        let others = others.chain(self.member.ownership.owning().next()).chain([now + BEAT]).map(Shot::at);
        let nodes = self.redises.nodes();
        let pumps = self.shards.schedule.next(now);
        let pumps = pumps.flat_map(|(node, next)| next.shots(&nodes[node].aim, now));
        others.chain(pumps).min_by_key(|shot| shot.wake).expect("a beat is always due")
    }

    /// Spins for the rest of the time from waking to sending.
    fn rang(&mut self, Shot { wake, send }: Shot) {
        let now = Instant::now();
        self.rang_at = Some(self.redises.calls.sent());
        self.redises.woke(wake, now);
        if send.saturating_duration_since(now) < AWAKE {
            while Instant::now() < send {
                std::hint::spin_loop();
            }
        }
    }

    /// Places each shard at its current node.
    fn place(&mut self, now: Instant) {
        self.redises.place(&mut self.shards, now);
        self.register_reach();
    }

    /// Registers the shards that this timer cannot reach, so that other timers take over.
    fn register_reach(&self) {
        self.member.fleet().handle().set_hindered(self.redises.out_of_reach());
    }

    fn drain(&mut self) {
        self.stopping = Some(Instant::now());
        // A leaving timer gives its shards away, whatever its health.
        self.redises.health.leave();
        self.member.drain();
    }

    /// Returns true if this timer stops and has no shard left, or if the time for handing over has passed.
    fn has_handed_over(&self) -> bool {
        let owning = self.member.ownership.owning();
        self.stopping.is_some_and(|since| owning.is_empty() || since.elapsed() >= HAND_OVER)
    }

    /// Waits for the calls in flight, gives shards back that no other timer took, and leaves.
    async fn farewell(mut self) {
        let _ = timeout(FAREWELL, self.redises.calls.settle()).await;
        // Without a next timer, the plan has given the shards to nobody: workers may be waiting for them.
        let _ = timeout(FAREWELL, self.redises.calls.give_back()).await;
        self.member.fleet().handle().leave(FAREWELL).await;
        let took = self.stopping.map_or(Duration::ZERO, |since| since.elapsed());
        events::stopped(took, self.shards.schedule.count());
    }
}
