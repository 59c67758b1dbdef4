//! The faults of a run: lost answers, invalid back-offs, stale entries.

use super::refused::BROKEN_BACKOFFS;
use super::{HOUR_MS, Run, receipt_of};
use crate::action::{Action, Repeat};
use crate::compare::compare;
use crate::snapshot::POISON;

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
