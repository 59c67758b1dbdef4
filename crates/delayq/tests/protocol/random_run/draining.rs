//! The end of a run.

use super::choice::GROUPS;
use super::{HOUR_MS, Run, receipt_of};
use crate::action::{Action, Purge, Reserve};
use crate::model::{Msg, Place};
use crate::snapshot::Name;

// === impl Run ===

impl Run {
    /// Delivers everything, after which only the registry remains.
    pub(super) async fn drain(&mut self) -> Result<(), String> {
        self.step(&Action::Hold { epoch: self.model.epoch, on: false }).await?;
        for topic in self.model.living() {
            let settings = [
                "paused",
                "rate",
                "backoff",
                "history",
                "group_in_flight",
                "group_failed",
                "group_order",
                "group_rate",
            ]
            .map(|field| (field, Vec::new()))
            .to_vec();
            self.step(&Action::Configure { topic: topic.clone(), settings }).await?;
            if self.model.no(&topic).is_some_and(|no| self.model.any_paused_group(no)) {
                let groups = GROUPS.map(str::to_owned).to_vec();
                self.step(&Action::PauseGroup { topic: topic.clone(), pauses: false, groups }).await?;
            }
            let (from, to) = (self.model.now() + 100 * HOUR_MS, (1 << 53) - 1);
            let is_far = |msg: &Msg| msg.place == Place::Delayed && msg.due() >= from;
            while self.model.messages.values().any(is_far) && self.purge(&topic, "delayed", from, to).await? {
            }
        }
        for round in 0.. {
            while self.pump().await? {}
            self.empty().await?;
            if self.model.messages.is_empty() && self.model.shifts.is_empty() && round > 0 {
                break;
            }
            if round == 20 {
                return Err(format!("it does not drain: {:?}", self.model.messages));
            }
            self.model.now_us += 20 * HOUR_MS * 1000;
        }
        for topic in self.model.living() {
            if !self.model.poisoned {
                self.step(&Action::Count { topic }).await?;
            }
        }
        self.model.now_us += 100 * HOUR_MS * 1000;
        while self.pump().await? {}
        match self.before.leftovers() {
            left if left.is_empty() => Ok(()),
            left => Err(format!("left over: {left:?}")),
        }
    }

    async fn empty(&mut self) -> Result<(), String> {
        let topics = self.model.living();
        for topic in &topics {
            let no = self.model.no(topic);
            let is_dead = |(name, msg): (&Name, &Msg)| Some(name.0) == no && msg.place == Place::Dead;
            while self.model.messages.iter().any(is_dead) {
                self.purge(topic, "dead", 0, u64::MAX >> 11).await?;
            }
        }
        if self.before.ready.is_empty() && self.before.parked.is_empty() {
            return Ok(());
        }
        self.step(&Action::Reserve(Reserve { topics, most: 200, max_bytes: 0, lease: Some(1000) })).await?;
        let held = self.model.messages.values().filter_map(receipt_of);
        // Lost messages return when their leases end.
        let receipts: Vec<_> = held.filter(|receipt| !self.lost.contains(*receipt)).cloned().collect();
        if receipts.is_empty() { Ok(()) } else { self.step(&Action::Ack { receipts }).await }
    }

    async fn pump(&mut self) -> Result<bool, String> {
        self.step(&Action::Pump { epoch: Some(self.model.epoch), limit: 500 }).await?;
        Ok(self.watch.timer.is_some_and(|next| next <= self.model.now()))
    }

    async fn purge(&mut self, topic: &str, state: &'static str, from: u64, to: u64) -> Result<bool, String> {
        let (topic, last) = (topic.into(), Vec::new());
        self.step(&Action::Purge(Purge { topic, state, from, to, last, limit: 100 })).await?;
        Ok(self.word == b"more")
    }
}
