//! Random runs of all operations, each step compared with the model. A seed determines a run.

mod choice;
mod draining;
mod faults;
mod looks;
mod refused;
mod swept;

use crate::action::{Action, List, Promote, Purge, Repeat, Reserve};
use crate::bare_shard::BareShard;
use crate::compare::{Watch, compare};
use crate::model::{Call, Model, Msg, Place};
use crate::snapshot::{Snapshot, lossy};
use delayq::protocol::Scripts;
use delayq::{Admin, Client, Namespace};
use delayq_tests::deployment::settings;
use delayq_tests::redis_server::RedisServer;
use fastrand::Rng;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::task::JoinSet;

const STEPS: usize = 28;
/// Concurrent runs on one thread: enough that neither the server nor the model waits for the other.
const WORKERS: usize = 3;
const PATIENCE: Duration = Duration::from_secs(60);
const HOUR_MS: u64 = 3_600_000;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Weather {
    /// No fault; now and then a call is made twice.
    Fair,
    /// Every call loses its answer and is repeated; old calls arrive again too.
    AnswersLost,
    /// Stale entries appear, and back-offs are invalid.
    Poisoned,
    /// Entries, bodies and alarms get lost, and sweeps mend the shard.
    Swept,
    /// Topics limit their groups, and messages have lifetimes. Now and then an answer is lost, and the call is repeated.
    Grouped,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Seeds {
    pub(crate) weather: Weather,
    pub(crate) first: u64,
    pub(crate) count: u64,
}

#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) seed: u64,
    pub(crate) why: String,
}

#[derive(Default)]
struct Cursors {
    list: Option<List>,
    promote: Option<Promote>,
    purge: Option<Purge>,
}

struct Run {
    shard: BareShard,
    admin: Admin,
    model: Model,
    weather: Weather,
    watch: Watch,
    before: Arc<Snapshot>,
    receipts: Vec<Vec<u8>>,
    lost: BTreeSet<Vec<u8>>,
    past: Vec<Action>,
    cursors: Cursors,
    likely: Option<Action>,
    waiting: Option<(u64, Reserve)>,
    word: Vec<u8>,
    log: Vec<String>,
    rng: Rng,
}

pub(crate) async fn run_seeds(
    server: &RedisServer,
    scripts: &Arc<Scripts>,
    seeds: Seeds,
) -> Result<(), Failure> {
    let next = Arc::new(AtomicU64::new(seeds.first));
    let mut threads = JoinSet::new();
    for thread in 0..std::thread::available_parallelism().map_or(2, usize::from) {
        let (next, scripts) = (Arc::clone(&next), Arc::clone(scripts));
        let urls = (server.socket_url(), server.url());
        // A run is a chain of small steps: a runtime of its own saves each step a hop between threads.
        threads.spawn_blocking(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let workers = (0..WORKERS).map(|worker| {
                    let namespace = format!("w{thread}-{worker}");
                    one_worker((&urls.0, &urls.1), namespace, &scripts, (seeds, &next))
                });
                futures_util::future::join_all(workers).await
            })
        });
    }
    let outcomes = threads.join_all().await.into_iter().flatten();
    let mut failures: Vec<Failure> = outcomes.filter_map(Result::err).collect();
    failures.sort_by_key(|failure| failure.seed);
    failures.into_iter().next().map_or(Ok(()), Err)
}

async fn one_worker(
    (socket, url): (&str, &str),
    namespace: String,
    scripts: &Arc<Scripts>,
    (seeds, next): (Seeds, &AtomicU64),
) -> Result<(), Failure> {
    // A busy machine may delay an answer for longer than a production client would wait.
    let config = redis::AsyncConnectionConfig::new().set_response_timeout(Some(PATIENCE));
    let client = redis::Client::open(socket).unwrap();
    let connection = client.get_multiplexed_async_connection_with_config(&config).await.unwrap();
    loop {
        let seed = next.fetch_add(1, Ordering::Relaxed);
        if seed >= seeds.first + seeds.count {
            return Ok(());
        }
        let shard = BareShard::over(connection.clone(), &namespace, Arc::clone(scripts));
        let settings = settings(url, 1).namespace(Namespace::new(namespace.as_str()).unwrap());
        let admin = Admin::new(Client::with_scripts(settings, Arc::clone(scripts)));
        if let Err(why) = one_run((shard, admin), seeds.weather, seed).await {
            next.store(u64::MAX / 2, Ordering::Relaxed);
            return Err(Failure { seed, why });
        }
    }
}

async fn one_run(shard: (BareShard, Admin), weather: Weather, seed: u64) -> Result<(), String> {
    let mut run = Run::new(shard, weather, seed).await;
    let outcome = run.go().await;
    run.shard.remove().await;
    outcome.map_err(|why| format!("{why}\n  {}\n", run.log.join("\n  ")))
}

// === impl Weather ===

impl Weather {
    pub(crate) const ALL: [Self; 5] =
        [Self::Fair, Self::AnswersLost, Self::Poisoned, Self::Swept, Self::Grouped];

    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Fair => "fair",
            Self::AnswersLost => "lost",
            Self::Poisoned => "poisoned",
            Self::Swept => "swept",
            Self::Grouped => "grouped",
        }
    }
}

// === impl Run ===

impl Run {
    async fn new((mut shard, admin): (BareShard, Admin), weather: Weather, seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        shard.create_again().await;
        // Near the end of an hour: an ordinary hour, the last of a year, the last in 32 bits of seconds.
        let edges = [1_763_697_600_000, 1_798_761_600_000, 2_147_482_800_000];
        let now = edges[rng.usize(..3)] - rng.u64(..2000);
        let now_us = now * 1000 + rng.u64(..1000);
        let model = Model { now_us, latest_us: now_us, ..Model::default() };
        shard.clock_us = Some(model.now_us);
        let before = shard.snapshot().await;
        Self {
            shard,
            admin,
            model,
            weather,
            watch: Watch::default(),
            before,
            receipts: Vec::new(),
            lost: BTreeSet::new(),
            past: Vec::new(),
            cursors: Cursors::default(),
            likely: None,
            waiting: None,
            word: Vec::new(),
            log: Vec::new(),
            rng,
        }
    }

    async fn go(&mut self) -> Result<(), String> {
        for _ in 0..STEPS {
            self.tick();
            if self.weather == Weather::Poisoned && self.rng.u8(..4) == 0 {
                self.poison().await?;
            }
            if self.rng.u8(..20) == 0 {
                self.refused_step().await?;
            }
            let action = self.choose();
            self.log.push(format!("{}: {action:?}", self.model.now()));
            match self.weather {
                Weather::Fair => self.fair_step(&action).await?,
                Weather::AnswersLost => self.lost_step(&action).await?,
                Weather::Poisoned => self.step(&action).await?,
                Weather::Swept => self.swept_step(&action).await?,
                Weather::Grouped if self.rng.u8(..8) == 0 => self.lost_step(&action).await?,
                Weather::Grouped => self.fair_step(&action).await?,
            }
        }
        self.log.push("draining".into());
        self.drain().await
    }

    async fn fair_step(&mut self, action: &Action) -> Result<(), String> {
        self.step(action).await?;
        if action.repeat() == Repeat::ChangesNothing && self.rng.u8(..8) == 0 {
            self.again(action).await?;
        }
        Ok(())
    }

    async fn step(&mut self, action: &Action) -> Result<(), String> {
        self.set_clock();
        let (answer, after) = self.shard.step(action.verb(), &action.args()).await;
        let answer = answer?;
        self.model.apply(action, &Call::new(&answer, &self.before, &after))?;
        self.conclude(action, &answer, after)
    }

    fn set_clock(&mut self) {
        self.shard.clock_us = Some(self.model.now_us);
        self.model.latest_us = self.model.latest_us.max(self.model.now_us);
    }

    fn conclude(&mut self, action: &Action, answer: &[Vec<u8>], after: Arc<Snapshot>) -> Result<(), String> {
        let word = |at: usize| answer.get(at).map(|word| lossy(word)).unwrap_or_default();
        match action {
            Action::Pump { .. } => self.watch.timer = word(2).parse().ok(),
            Action::Reserve(reserve) => {
                self.waiting = word(1).parse().ok().map(|wait| (wait, reserve.clone()));
            }
            Action::List(list) => {
                let from = word(1).parse().ok();
                self.cursors.list = from.map(|from| List { from, last: answer[2].clone(), ..list.clone() });
            }
            Action::Promote(promote) => {
                let from = word(3).parse().ok().filter(|_| word(0) == "more");
                self.cursors.promote =
                    from.map(|from| Promote { from, last: answer[4].clone(), ..promote.clone() });
            }
            Action::Purge(purge) => {
                let from = word(3).parse().ok().filter(|_| word(0) == "more");
                self.cursors.purge =
                    from.map(|from| Purge { from, last: answer[4].clone(), ..purge.clone() });
            }
            _ => {}
        }
        // A query on an unchanged shard needs no comparison.
        if !(action.is_look() && Arc::ptr_eq(&after, &self.before)) {
            compare(&self.model, &after, &mut self.watch)?;
        }
        for receipt in self.model.messages.values().filter_map(receipt_of) {
            if !self.receipts.contains(receipt) && !self.lost.contains(receipt) {
                self.receipts.push(receipt.clone());
            }
        }
        self.before = after;
        self.word = answer.first().cloned().unwrap_or_default();
        Ok(())
    }
}

fn receipt_of(msg: &Msg) -> Option<&Vec<u8>> {
    match &msg.place {
        Place::Leased { receipt, .. } => Some(receipt),
        _ => None,
    }
}
