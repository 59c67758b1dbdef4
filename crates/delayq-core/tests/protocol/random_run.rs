//! Random runs of all operations, each step compared with the model. A run is its seed.

use crate::{
    action::{Action, GiveBack, Item},
    bare_shard::{BareShard, scripts_with},
    compare::{Watch, compare},
    model::{Model, Place},
    snapshot::{Snapshot, lossy},
};
use delayq_core::Scripts;
use delayq_tests::redis_server::RedisServer;
use fastrand::Rng;
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

const STEPS: usize = 24;
const WORKERS: u64 = 6;
const HOUR_MS: u64 = 3_600_000;
const TOPICS: [&str; 3] = ["a", "tenant/b", "1:2"];
const GROUPS: [&str; 2] = ["user-1", "2:{}"];

/// One run under way.
struct Run {
    shard: BareShard,
    model: Model,
    watch: Watch,
    before: Snapshot,
    receipts: Vec<Vec<u8>>,
    /// How the last call answered, its first word.
    word: Vec<u8>,
    rng: Rng,
}

/// Runs the seeds `first..first + count` on one server: the first failure, with its seed.
pub(crate) async fn run_seeds(
    server: &RedisServer,
    scripts: &Arc<Scripts>,
    first: u64,
    count: u64,
) -> Result<(), String> {
    let next = Arc::new(AtomicU64::new(first));
    let workers = (0..WORKERS).map(|worker| {
        let (next, scripts) = (Arc::clone(&next), Arc::clone(scripts));
        let namespace = format!("w{worker}");
        async move {
            loop {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                if seed >= first + count {
                    return Ok(());
                }
                let mut run = Run::new(server, &namespace, Arc::clone(&scripts), seed).await;
                let outcome = run.go().await;
                run.shard.remove().await;
                if let Err(why) = outcome {
                    next.store(u64::MAX / 2, Ordering::Relaxed);
                    return Err(format!("seed {seed}: {why}"));
                }
            }
        }
    });
    futures_util::future::join_all(workers).await.into_iter().collect()
}

// === impl Run ===

impl Run {
    async fn new(server: &RedisServer, namespace: &str, scripts: Arc<Scripts>, seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let mut shard = BareShard::create(server, namespace, scripts).await;
        // Near the edge of an hour: of an ordinary one, of a year, of what 32 bits of seconds hold.
        let edges = [1_763_697_600_000, 1_798_761_600_000, 2_147_482_800_000];
        let now = edges[rng.usize(..3)] - rng.u64(..2000);
        let model = Model { now_us: now * 1000 + rng.u64(..1000), ..Model::default() };
        shard.clock_us = Some(model.now_us);
        let before = shard.snapshot().await;
        Self { shard, model, watch: Watch::default(), before, receipts: Vec::new(), word: Vec::new(), rng }
    }

    async fn go(&mut self) -> Result<(), String> {
        let mut log = Vec::new();
        for _ in 0..STEPS {
            self.tick();
            let action = self.choose();
            log.push(format!("{}: {action:?}", self.model.now()));
            self.step(&action).await.map_err(|why| failure(&log, &why))?;
            if action.is_idempotent() && self.rng.u8(..4) == 0 {
                log.push("the same again".into());
                let was = self.model.clone();
                self.step(&action).await.map_err(|why| failure(&log, &why))?;
                if self.model != was {
                    return Err(failure(&log, "the repeat changed something"));
                }
            }
        }
        self.drain().await.map_err(|why| failure(&log, &format!("while draining: {why}")))
    }

    async fn step(&mut self, action: &Action) -> Result<(), String> {
        self.shard.clock_us = Some(self.model.now_us);
        let (answer, after) = self.shard.step(action.verb(), &action.args()).await;
        let answer = answer?;
        self.model.apply(action, &answer, &self.before, &after)?;
        if let (Action::Pump { .. }, Some(next)) = (action, answer.get(2)) {
            self.watch.timer = lossy(next).parse().ok();
        }
        compare(&self.model, &after, &mut self.watch)?;
        for msg in self.model.messages.values() {
            if let Place::Leased { receipt, .. } = &msg.place
                && !self.receipts.contains(receipt)
            {
                self.receipts.push(receipt.clone());
            }
        }
        self.before = after;
        self.word = answer.into_iter().next().unwrap_or_default();
        Ok(())
    }

    /// Lets everything go out: then only the registry is left.
    async fn drain(&mut self) -> Result<(), String> {
        self.step(&Action::Hold { epoch: self.model.epoch, on: false }).await?;
        for topic in self.model.topics.clone() {
            for field in ["paused", "rate"] {
                self.step(&Action::Configure { topic: topic.clone(), field, value: String::new() }).await?;
            }
            let (from, to) = (self.model.now() + 100 * HOUR_MS, (1 << 53) - 1);
            while self.purge(&topic, "delayed", from, to).await? {}
        }
        for round in 0.. {
            while self.pump().await? {}
            for topic in self.model.topics.clone() {
                while self.purge(&topic, "dead", 0, u64::MAX >> 11).await? {}
                let reserve = Action::Reserve { topics: vec![topic.clone()], most: 100, lease: Some(1000) };
                self.step(&reserve).await?;
                let leased = |msg: &crate::model::Msg| match &msg.place {
                    Place::Leased { receipt, .. } => Some(receipt.clone()),
                    _ => None,
                };
                let receipts: Vec<_> = self.model.messages.values().filter_map(leased).collect();
                if !receipts.is_empty() {
                    self.step(&Action::Ack { receipts }).await?;
                }
                self.step(&Action::Count { topic }).await?;
            }
            if self.model.messages.is_empty() && self.model.shifts.is_empty() && round > 0 {
                break;
            }
            if round == 20 {
                return Err(format!("it does not drain: {:?}", self.model.messages));
            }
            self.model.now_us += 20 * HOUR_MS * 1000;
        }
        self.model.now_us += 100 * HOUR_MS * 1000;
        while self.pump().await? {}
        match self.before.leftovers() {
            left if left.is_empty() => Ok(()),
            left => Err(format!("left over: {left:?}")),
        }
    }

    async fn pump(&mut self) -> Result<bool, String> {
        self.step(&Action::Pump { epoch: Some(self.model.epoch), limit: 500 }).await?;
        Ok(self.watch.timer.is_some_and(|next| next <= self.model.now()))
    }

    async fn purge(&mut self, topic: &str, state: &'static str, from: u64, to: u64) -> Result<bool, String> {
        self.step(&Action::Purge { topic: topic.into(), state, from, to, limit: 100 }).await?;
        Ok(self.word == b"more")
    }

    /// Time goes on: not at all, a little, or far.
    fn tick(&mut self) {
        let rng = &mut self.rng;
        let us = match rng.u8(..12) {
            0..4 => 0,
            4..7 => rng.u64(..3000),
            7..9 => rng.u64(..3_000_000),
            9 => rng.u64(..70_000_000),
            10 => rng.u64(..2 * HOUR_MS * 1000),
            // To the very millisecond at which something is due, or one before it.
            _ => match self.before.index("alarms").values().min().copied() {
                Some(head) if head * 1000 > self.model.now_us && head < self.model.now() + 100 * HOUR_MS => {
                    head * 1000 - self.model.now_us - rng.u64(..2)
                }
                _ => 0,
            },
        };
        self.model.now_us += us;
    }

    fn choose(&mut self) -> Action {
        match self.rng.u8(..100) {
            0..22 => self.put(),
            22..30 => Action::Cancel { topic: self.topic(), ids: self.ids() },
            30..33 => {
                let (cursor, limit) = [(0, 100), (0, 2), (1, 1)][self.rng.usize(..3)];
                Action::CancelGroup { group: self.group(), cursor, limit }
            }
            33..41 => self.reschedule(),
            41..44 => self.shift(),
            44..58 => self.pump_action(),
            58..70 => self.reserve(),
            70..75 => Action::Ack { receipts: self.some_receipts() },
            75..77 => {
                let lease = [None, Some(1), Some(5000), Some(200_000)][self.rng.usize(..4)];
                Action::Extend { receipts: self.some_receipts(), lease }
            }
            77..83 => self.release(),
            83..86 => Action::Bury { receipts: self.some_receipts() },
            86..89 => {
                let delay = [0, 0, 500, HOUR_MS][self.rng.usize(..4)];
                Action::Replay { topic: self.topic(), delay, ids: self.ids() }
            }
            89..91 => {
                let state = ["delayed", "ready", "dead"][self.rng.usize(..3)];
                let (from, to) = (
                    self.model.now() - self.rng.u64(..HOUR_MS),
                    self.model.now() + self.rng.u64(..2 * HOUR_MS),
                );
                Action::Purge { topic: self.topic(), state, from, to, limit: self.rng.u64(1..4) }
            }
            91..94 => self.configure(),
            94..95 => {
                let lock = [0, 10_000][self.rng.usize(..2)];
                Action::Claim { owner: ["one", "two"][self.rng.usize(..2)].into(), lock }
            }
            95..96 => {
                let epoch = self.model.epoch.saturating_sub(self.rng.u64(..2));
                Action::Hold { epoch, on: self.rng.u8(..3) == 0 }
            }
            96..98 => Action::Count { topic: self.topic() },
            _ => Action::Peek { topic: self.topic(), ids: self.ids() },
        }
    }

    fn topic(&mut self) -> String {
        TOPICS[self.rng.usize(..20).min(3) % 3].into()
    }

    fn group(&mut self) -> String {
        GROUPS[self.rng.usize(..GROUPS.len())].into()
    }

    fn id(&mut self) -> Vec<u8> {
        match self.rng.u8(..8) {
            0 => b"1:2".to_vec(),
            1 => "ü{}".as_bytes().to_vec(),
            n @ 2..5 => vec![b'a' + n],
            n => [&[1, 2, 3][..], &[n; 13][..]].concat(),
        }
    }

    fn ids(&mut self) -> Vec<Vec<u8>> {
        (0..self.rng.usize(1..4)).map(|_| self.id()).collect()
    }

    fn due(&mut self) -> u64 {
        let now = self.model.now();
        match self.rng.u8(..10) {
            0 => now,
            1 => now - self.rng.u64(..HOUR_MS),
            2..6 => now + self.rng.u64(..3000),
            6 => now - now % HOUR_MS + HOUR_MS - self.rng.u64(..2),
            7 => (1 << 53) - 1,
            _ => now + self.rng.u64(..2 * HOUR_MS),
        }
    }

    fn due_text(&mut self) -> String {
        match self.rng.u8(..4) {
            0 => format!("+{}", self.rng.u64(..5000)),
            _ => self.due().to_string(),
        }
    }

    fn put(&mut self) -> Action {
        let items = (0..self.rng.usize(1..5)).map(|_| self.item()).collect();
        Action::Put { topic: self.topic(), items }
    }

    fn item(&mut self) -> Item {
        let now = self.model.now();
        let mut item = Item::new(&self.id(), self.due_text());
        let rng = &mut self.rng;
        item.replace = rng.u8(..5) == 0;
        item.tried = (rng.u8(..6) == 0).then(|| now - rng.u64(..2 * HOUR_MS));
        item.expires = (rng.u8(..4) == 0).then(|| now + rng.u64(..10_000));
        item.fixed_backoff = (rng.u8(..4) == 0).then(|| rng.u64(1..3000));
        item.max = if rng.u8(..3) == 0 { rng.u16(1..3) } else { 0 };
        item.content = rng.u8(..3);
        item.group = rng.bool().then(|| self.group());
        item
    }

    fn reschedule(&mut self) -> Action {
        let topic = self.topic();
        let no = self.model.no(&topic).unwrap_or(0);
        let changes = self
            .ids()
            .into_iter()
            .map(|id| {
                let is = self
                    .model
                    .messages
                    .get(&(no, id.clone()))
                    .map_or(self.model.now(), crate::model::Msg::due);
                let expected = is + u64::from(self.rng.u8(..4) == 0);
                match self.rng.u8(..4) {
                    0 if is < 1 << 50 => (id, format!("by {:+}", self.rng.i64(-5000..5000)), Some(expected)),
                    1 => (id, self.due_text(), Some(expected)),
                    _ => (id, self.due_text(), None),
                }
            })
            .collect();
        Action::Reschedule { topic, changes }
    }

    /// A shift that is under way goes on; sometimes another tries to come between.
    fn shift(&mut self) -> Action {
        let (group, limit) = (self.group(), self.rng.u64(1..4));
        let token = self.rng.u8(..3).to_string();
        let known = self.model.shifts.get(&group).filter(|shift| !shift.over && self.rng.u8(..4) > 0);
        let (token, by) = match (known, self.model.shifts.get(&group)) {
            (Some(shift), _) => (shift.token.clone(), shift.by),
            (None, Some(shift)) if shift.token == token => (token, shift.by),
            _ => (token, [1000, -1000, 70_000, -(HOUR_MS as i64)][self.rng.usize(..4)]),
        };
        Action::ShiftGroup { group, token, by, limit }
    }

    fn pump_action(&mut self) -> Action {
        let epoch = match self.rng.u8(..10) {
            0 => None,
            1 => Some(self.model.epoch.saturating_sub(1)),
            2 => Some(self.model.epoch + 1),
            _ => Some(self.model.epoch),
        };
        Action::Pump { epoch, limit: [1, 2, 5, 500, 500, 500][self.rng.usize(..6)] }
    }

    fn reserve(&mut self) -> Action {
        let mut topics = vec![self.topic()];
        if self.rng.u8(..3) == 0 {
            topics = TOPICS.map(str::to_owned).to_vec();
            self.rng.shuffle(&mut topics);
        }
        let rated = |topic: &String| {
            self.model.no(topic).is_some_and(|no| self.model.settings.contains_key(&(no, "rate".into())))
        };
        if topics.iter().any(rated) {
            topics.truncate(1);
        }
        let lease = [None, Some(1), Some(1000), Some(60_000)][self.rng.usize(..4)];
        Action::Reserve { topics, most: [1, 2, 3, 100][self.rng.usize(..4)], lease }
    }

    /// Receipts that hold, receipts of old, and sometimes one twice.
    fn some_receipts(&mut self) -> Vec<Vec<u8>> {
        let held: Vec<Vec<u8>> =
            self.receipts.iter().filter(|receipt| self.model.leased_by(receipt).is_some()).cloned().collect();
        let from = if self.rng.u8(..4) == 0 || held.is_empty() { &self.receipts } else { &held };
        if from.is_empty() {
            return vec![b"1:a\0\0\0\0".to_vec()];
        }
        (0..self.rng.usize(1..4)).map(|_| from[self.rng.usize(..from.len())].clone()).collect()
    }

    fn release(&mut self) -> Action {
        let receipts = self.some_receipts();
        let one = |receipt| {
            let delay = [None, Some(0), Some(700), Some(HOUR_MS)][self.rng.usize(..4)];
            GiveBack { receipt, delay, keep: self.rng.u8(..3) == 0 }
        };
        Action::Release { all: receipts.into_iter().map(one).collect() }
    }

    fn configure(&mut self) -> Action {
        let rng = &mut self.rng;
        let (field, value) = match rng.u8(..9) {
            0 => ("paused", ["1", ""][rng.usize(..2)]),
            1 => ("rate", ["5", "0.5", ""][rng.usize(..3)]),
            2 => ("max_attempts", ["0", "1", "3", ""][rng.usize(..4)]),
            3 => ("lease_ms", ["10", ""][rng.usize(..2)]),
            4 => ("expire_after_ms", ["2000", "0"][rng.usize(..2)]),
            5 => ("remember_cancelled_ms", ["0", "1000", "7200000"][rng.usize(..3)]),
            6 => ("remember_own_ms", ["0", "5000"][rng.usize(..2)]),
            7 => ("remember_generated_ms", ["0", "5000"][rng.usize(..2)]),
            _ => ("paused", ""),
        };
        Action::Configure { topic: self.topic(), field, value: value.into() }
    }
}

fn failure(log: &[String], why: &str) -> String {
    format!("{why}\n  {}\n", log.join("\n  "))
}

/// Runs seeds, and says of a failure how it is seen again.
pub(crate) async fn hold_to_the_model(first: u64, count: u64) {
    let server = RedisServer::start().await;
    if let Err(why) = run_seeds(&server, &scripts_with(&[]), first, count).await {
        panic!("{why}\nAgain with DELAYQ_MODEL_SEED=<seed>; keep the seed in tests/protocol/seeds.txt.");
    }
}
