//! Sweeps within a run: a sweep leaves a sound shard alone, and mends stuck messages like the model.

use super::{HOUR_MS, Run};
use crate::action::Action;
use crate::compare::compare;
use crate::model::{Place, index_name};
use crate::snapshot::{Name, POISON, Snapshot, lossy};
use delayq::admin::SweptMending;
use std::sync::Arc;

/// Walks until nothing is left to mend: the first mends every finding, a counter takes two more.
const WALKS: usize = 4;

// === impl Run ===

impl Run {
    pub(super) async fn swept_step(&mut self, action: &Action) -> Result<(), String> {
        self.step(action).await?;
        if self.rng.u8(..4) > 0 {
            return Ok(());
        }
        let faults = self.rng.usize(..5);
        match faults {
            // Alone: an alarm set by another mending within ten seconds counts for the whole index.
            4 => self.lose_alarm().await,
            _ => self.plant(faults).await,
        }
        self.log.push("a sweep".into());
        let sound = Arc::clone(&self.before);
        let found = self.sweep().await?;
        self.before = self.shard.snapshot().await;
        compare(&self.model, &self.before, &mut self.watch)?;
        if !self.before.poison.is_empty() {
            return Err(format!("stale entries are left in {:?}", self.before.poison));
        }
        if faults == 0 && (found > 0 || without_gen(&sound) != without_gen(&self.before)) {
            return Err(format!("a sweep of a sound shard found {found} faults or changed it"));
        }
        Ok(())
    }

    async fn sweep(&mut self) -> Result<usize, String> {
        let (mut sweep, mut found) = (self.admin.audit().sweep(1.0, true), 0);
        for walk in 1..=WALKS {
            let mut faults = Vec::new();
            while let Some(step) = sweep.next().await.map_err(|error| error.to_string())? {
                faults.extend(step.faults);
            }
            // The test's own keys do not belong to a shard.
            faults.retain(|fault| fault.kind != "wrong_type");
            let is_left = |mending: &SweptMending| walk == WALKS || *mending != SweptMending::Mended;
            if let Some(left) = faults.iter().find(|fault| is_left(&fault.mending)) {
                return Err(format!("walk {walk} left {left:?}"));
            }
            found += faults.len();
        }
        Ok(found)
    }

    async fn plant(&mut self, faults: usize) {
        let mut names: Vec<Name> = self.model.messages.keys().cloned().collect();
        self.rng.shuffle(&mut names);
        for _ in 0..faults {
            match (self.rng.u8(..9), names.pop()) {
                (0 | 1, _) | (_, None) => self.plant_stale_entry().await,
                (2, _) => self.drift().await,
                (3 | 4, Some(name)) => self.lose_body(&name).await,
                (5 | 6, Some(name)) => self.lose_indexes(&name).await,
                (_, Some(name)) => self.lose_place(&name).await,
            }
        }
    }

    async fn lose_alarm(&mut self) {
        let alarms = self.before.index("alarms").keys().cloned().collect();
        if let Some(alarm) = self.one_of(alarms) {
            self.edit(&[b"ZREM", b"~alarms", &alarm]).await;
        }
    }

    async fn lose_body(&mut self, name: &Name) {
        self.model.lose(name);
        self.watch.lose(name);
        self.edit(&[b"DEL", &[b"~m:", &index_name(name)[..]].concat()]).await;
    }

    async fn lose_indexes(&mut self, name: &Name) {
        let msg = &self.model.messages[name];
        if !msg.is_pending() {
            return;
        }
        let group = msg.stored.group.as_ref().map(|group| format!("~g:{group}"));
        for index in group.into_iter().chain(["~expiries".to_owned()]) {
            self.edit(&[b"ZREM", index.as_bytes(), &index_name(name)]).await;
        }
    }

    async fn lose_place(&mut self, name: &Name) {
        let msg = self.model.messages[name].clone();
        let generation = self.before.envelope(name).expect("the model's messages are there").generation;
        let member = [&name.1[..], &generation.to_be_bytes()].concat();
        match &msg.place {
            Place::Leased { receipt, .. } => {
                self.model.lease_again(name);
                self.edit(&[b"ZREM", b"~leases", receipt]).await;
            }
            Place::Dead => self.edit(&[b"ZREM", format!("~d:{}", name.0).as_bytes(), &member]).await,
            // A due time that came or went back meanwhile, as clocks do, leads to another place: `stuck`
            // tests that case.
            Place::Delayed if !self.model.is_ready_now(msg.due()) => {
                self.model.place_again(name);
                let bucket = format!("~b:{}:{}", name.0, msg.due() / HOUR_MS);
                self.edit(&[b"ZREM", bucket.as_bytes(), &member]).await;
            }
            Place::Ready if self.model.is_ready_now(msg.due()) => {
                let queue = &self.before.ready[&name.0];
                let is_its = |entry: &&Vec<u8>| entry.starts_with(&member) && entry.len() == member.len() + 7;
                let entry = queue.iter().find(is_its).expect("it is ready").clone();
                self.model.place_again(name);
                self.edit(&[b"LREM", format!("~r:{}", name.0).as_bytes(), b"0", &entry]).await;
            }
            _ => {}
        }
    }

    async fn plant_stale_entry(&mut self) {
        let at = self.model.now() + self.rng.u64(..HOUR_MS);
        let no = self.rng.usize(..=self.model.topics.len()).max(1);
        let own = ["leases", "expiries", "markers", "ends"].map(str::to_owned);
        let others = [format!("b:{no}:{}", at / HOUR_MS), format!("d:{no}"), format!("g:{}", self.group())];
        let index = self.one_of(own.into_iter().chain(others).collect()).expect("one of seven");
        let member = match index.as_bytes()[0] {
            b'b' | b'd' => format!("{POISON}\0\0\0\u{2}"),
            _ => format!("{no}:{POISON}\0\0\0\u{2}"),
        };
        let (index, at) = (format!("~{index}"), at.to_string());
        self.edit(&[b"ZADD", index.as_bytes(), at.as_bytes(), member.as_bytes()]).await;
    }

    async fn drift(&mut self) {
        let Some(topic) = self.one_of(self.model.living()) else { return };
        let no = self.model.no(&topic).expect("it is there");
        let counter = format!("{}:{no}", ["ready", "leased", "accepted"][self.rng.usize(..3)]);
        let by = self.rng.i64(-3..=3).to_string();
        self.edit(&[b"HINCRBY", b"~stats", counter.as_bytes(), by.as_bytes()]).await;
    }

    async fn edit(&mut self, words: &[&[u8]]) {
        self.log.push(format!("{:?}", words.iter().map(|word| lossy(word)).collect::<Vec<_>>()));
        self.shard.command(words).await;
        self.before = self.shard.snapshot().await;
        self.watch.pass_over(&self.before);
    }

    fn one_of<T>(&mut self, mut all: Vec<T>) -> Option<T> {
        (!all.is_empty()).then(|| all.swap_remove(self.rng.usize(..all.len())))
    }
}

/// The shard without the count of gens, which even an idle repair advances.
fn without_gen(shard: &Snapshot) -> Snapshot {
    let mut shard = shard.clone();
    shard.hashes.get_mut("meta").map(|meta| meta.remove("gen"));
    shard
}
