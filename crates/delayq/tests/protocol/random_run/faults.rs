//! The faults of a run: lost answers, keys of the wrong type, stale entries.

use super::refused::BROKEN_BACKOFFS;
use super::{HOUR_MS, Run, is_refused, receipt_of};
use crate::action::{Action, Repeat};
use crate::bare_shard::Answer;
use crate::compare::compare;
use crate::model::Call;
use crate::snapshot::{POISON, lossy};

// === impl Run ===

impl Run {
    pub(super) async fn lost_step(&mut self, action: &Action) -> Result<(), String> {
        if action.is_look() {
            return self.step(action).await;
        }
        let known: Vec<_> = self.receipts.clone();
        self.step(action).await?;
        if let Action::Reserve(_) = action {
            let held = self.model.messages.values().filter_map(receipt_of);
            self.lost.extend(held.filter(|receipt| !known.contains(receipt)).cloned());
            self.receipts = known;
        }
        self.again(action).await?;
        self.past.push(action.clone());
        if self.rng.u8(..6) == 0 {
            let old = self.past[self.rng.usize(..self.past.len())].clone();
            self.log.push(format!("late: {old:?}"));
            self.step(&old).await?;
        }
        Ok(())
    }

    pub(super) async fn again(&mut self, action: &Action) -> Result<(), String> {
        self.log.push("the same again".into());
        let was = self.model.clone();
        self.step(action).await?;
        if action.repeat() == Repeat::ChangesNothing && self.model != was {
            return Err("the repeat changed something".into());
        }
        Ok(())
    }

    /// Calls for one message while a key has the wrong type: the call is applied, or refused without a trace.
    pub(super) async fn broken_step(&mut self, action: Action) -> Result<(), String> {
        let action = of_one(action);
        let key = self.key_to_break(&action);
        self.log.push(format!("the same, of one message, with a set for {key}"));
        self.set_clock();
        self.shard.break_key(&key).await;
        let answer = self.shard.call(action.verb(), &action.args()).await;
        self.shard.mend_key(&key).await;
        let after = self.shard.snapshot().await;
        if is_refused(&answer) || action.is_look() {
            match (&action, &answer) {
                // A pump records the shard's owner before any move.
                (Action::Pump { epoch: Some(epoch), .. }, _)
                    if after.number("meta", "epoch") == *epoch as i64 =>
                {
                    self.model.epoch = self.model.epoch.max(*epoch);
                }
                _ => {}
            }
            compare(&self.model, &after, &mut self.watch)
                .map_err(|why| format!("it answered {:?}, but: {why}", text(&answer)))?;
            self.before = after;
            return Ok(());
        }
        let answer = answer?;
        let mut call = Call::new(&answer, &self.before, &after);
        call.broken = true;
        self.model.apply(&action, &call)?;
        self.conclude(&action, &answer, after)
    }

    fn key_to_break(&mut self, action: &Action) -> String {
        let hour = self.model.now() / HOUR_MS;
        let mut keys: Vec<String> = [
            "meta",
            "stats",
            "alarms",
            "leases",
            "expiries",
            "markers",
            "ends",
            "g:user-1",
            "g:2:{}",
            "dictionaries",
        ]
        .map(str::to_owned)
        .to_vec();
        keys.extend(self.before.ends.keys().map(|ms| format!("e:{ms}")));
        for no in 1..=self.model.topics.len() {
            keys.extend(["r", "d", "t"].map(|kind| format!("{kind}:{no}")));
            keys.extend([hour, hour + 1].map(|hour| format!("b:{no}:{hour}")));
        }
        // A cursor is removed by name, whatever its type; only reading fails.
        if let Action::ShiftGroup { group, .. } = action {
            keys.push(format!("shift:{group}"));
        }
        keys.swap_remove(self.rng.usize(..keys.len()))
    }

    /// Writes an invalid back-off into a topic's policy, which `configure` would refuse.
    async fn break_backoff(&mut self, no: usize) -> Result<(), String> {
        let broken = BROKEN_BACKOFFS[self.rng.usize(..BROKEN_BACKOFFS.len())];
        self.log.push(format!("an invalid back-off of topic {no}: {broken:?}"));
        self.shard.command(&[b"HSET", format!("~t:{no}").as_bytes(), b"backoff", broken]).await;
        self.model.settings.insert((no as u32, "backoff".into()), broken.to_vec());
        self.before = self.shard.snapshot().await;
        compare(&self.model, &self.before, &mut self.watch)
    }

    pub(super) async fn poison(&mut self) -> Result<(), String> {
        if self.model.topics.is_empty() {
            return Ok(());
        }
        let (no, now) = (self.rng.usize(..self.model.topics.len()) + 1, self.model.now());
        if self.rng.u8(..5) == 0 {
            return self.break_backoff(no).await;
        }
        let at = now + self.rng.u64(..HOUR_MS) - HOUR_MS / 2;
        let index = ["leases", "expiries", "markers", "ends"][self.rng.usize(..4)];
        let bucket = format!("b:{no}:{}", at / HOUR_MS);
        let key = [index.to_owned(), format!("r:{no}"), bucket][self.rng.usize(..3)].clone();
        let numbered = format!("{no}:{POISON}\0\0\0\u{2}");
        let members = [POISON.to_owned(), format!("{POISON}\0\0\0\u{2}\0\0\0\0\0\0\0"), numbered];
        let member = &members[self.rng.usize(..3)];
        self.log.push(format!("poison in {key}: {member:?}"));
        let name = format!("~{key}");
        if key.starts_with("r:") {
            let push = ["LPUSH", "RPUSH"][self.rng.usize(..2)];
            self.shard.command(&[push.as_bytes(), name.as_bytes(), member.as_bytes()]).await;
        } else {
            let at = at.to_string();
            self.shard.command(&[b"ZADD", name.as_bytes(), at.as_bytes(), member.as_bytes()]).await;
            self.shard.command(&[b"ZADD", b"~alarms", b"LT", at.as_bytes(), key.as_bytes()]).await;
        }
        self.model.poisoned = true;
        self.before = self.shard.snapshot().await;
        self.watch.pass_over(&self.before);
        compare(&self.model, &self.before, &mut self.watch)
    }
}

fn text(answer: &Answer) -> Vec<String> {
    answer
        .as_ref()
        .map_or_else(|why| vec![why.clone()], |words| words.iter().map(|word| lossy(word)).collect())
}

fn of_one(action: Action) -> Action {
    match action {
        Action::Put { topic, mut items } => {
            items.truncate(1);
            Action::Put { topic, items }
        }
        Action::Cancel { topic, mut ids } => {
            ids.truncate(1);
            Action::Cancel { topic, ids }
        }
        Action::Reschedule { topic, mut changes } => {
            changes.truncate(1);
            Action::Reschedule { topic, changes }
        }
        Action::Reserve(mut reserve) => {
            (reserve.most, reserve.topics) = (1, vec![reserve.topics.swap_remove(0)]);
            Action::Reserve(reserve)
        }
        Action::Ack { mut receipts } => {
            receipts.truncate(1);
            Action::Ack { receipts }
        }
        Action::Extend { mut receipts, lease } => {
            receipts.truncate(1);
            Action::Extend { receipts, lease }
        }
        Action::Release { mut all } => {
            all.truncate(1);
            Action::Release { all }
        }
        Action::Bury { mut receipts } => {
            receipts.truncate(1);
            Action::Bury { receipts }
        }
        Action::Replay { topic, delay, mut ids } => {
            ids.truncate(1);
            Action::Replay { topic, delay, ids }
        }
        other => other,
    }
}
