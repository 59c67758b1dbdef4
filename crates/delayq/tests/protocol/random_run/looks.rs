//! The queries of a run.

use super::choice::LAST_MS;
use super::{HOUR_MS, Run};
use crate::action::{Action, List};
use std::collections::BTreeSet;

// === impl Run ===

impl Run {
    pub(super) fn look(&mut self) -> Action {
        match self.rng.u8(..10) {
            0 => Action::Count { topic: self.topic() },
            1 => Action::Peek { topic: self.topic(), ids: self.ids() },
            2..5 => self.list(),
            5 => {
                let group = self.group();
                Action::ListGroup { behind: self.mark(&group), group, limit: self.rng.u64(1..4) }
            }
            6..8 => self.histogram(),
            // After a clock step back, ready messages seem not to be due.
            8 if self.model.now_us == self.model.latest_us => self.audit(),
            _ if self.rng.bool() && self.model.now_us.is_multiple_of(2) => Action::Overview,
            _ if !self.model.now_us.is_multiple_of(2) => {
                Action::Survey { spans: vec![1, HOUR_MS / 2, 30 * HOUR_MS] }
            }
            _ if !self.model.now_us.is_multiple_of(3) => {
                Action::History { topic: self.topic(), id: b"c".to_vec() }
            }
            _ => Action::Describe { topic: self.topic() },
        }
    }

    fn audit(&mut self) -> Action {
        match self.rng.u8(..4) {
            0 => {
                let key = |name: &(u32, Vec<u8>)| [format!("m:{}:", name.0).as_bytes(), &name.1].concat();
                let mut bodies: Vec<_> = self.before.bodies.keys().map(key).collect();
                bodies.push(b"m:1:nobody".to_vec());
                Action::Audit { bodies }
            }
            1 => self.audit_index(),
            2 => Action::Recount { topic: self.topic() },
            _ => self.repair(),
        }
    }

    /// Keys other than messages, with all their entries.
    fn audit_index(&mut self) -> Action {
        let shard = &self.before;
        let mut indexes: BTreeSet<String> = shard.indexes.keys().cloned().collect();
        indexes.extend(shard.buckets.iter().map(|(no, hour, ..)| format!("b:{no}:{hour}")));
        indexes.extend(shard.parked.keys().map(|(no, group)| format!("p:{no}:{group}")));
        indexes.extend(shard.dead.iter().map(|(no, ..)| format!("d:{no}")));
        indexes.extend(shard.groups.iter().map(|(group, ..)| format!("g:{group}")));
        indexes.extend(shard.ends.keys().map(|ms| format!("e:{ms}")));
        indexes.extend(shard.histories.keys().map(|no| format!("h:{no}")));
        indexes.extend(shard.hashes.keys().cloned());
        let mut indexes: Vec<Vec<u8>> = indexes.into_iter().map(String::into_bytes).collect();
        self.rng.shuffle(&mut indexes);
        indexes.truncate(self.rng.usize(1..8));
        Action::AuditIndex { indexes }
    }

    /// Every kind of finding about a message, none of which applies.
    fn repair(&mut self) -> Action {
        let name = |name: &(u32, Vec<u8>)| [format!("{}:", name.0).as_bytes(), &name.1].concat();
        let kinds = ["no_lease", "no_dead_entry", "no_marker_entry", "no_group_entry", "no_expiry_entry"];
        let mut findings = vec![[b"no_alarm".to_vec(), b"leases".to_vec(), Vec::new()]];
        for body in self.before.bodies.keys() {
            let kind = [&kinds[..], &["malformed", "no_place"]].concat()[self.rng.usize(..7)];
            findings.push([kind.into(), b"m".to_vec(), name(body)]);
        }
        Action::Repair { findings }
    }

    fn list(&mut self) -> Action {
        if let Some(next) = self.cursors.list.clone().filter(|_| self.rng.u8(..4) > 0) {
            return Action::List(next);
        }
        let state = ["delayed", "delayed", "ready", "leased", "dead"][self.rng.usize(..5)];
        let newest_first = state == "dead" && self.rng.bool();
        let (mut from, mut to) = if self.rng.bool() { self.range() } else { (0, LAST_MS) };
        if newest_first {
            (from, to) = (to, from);
        }
        Action::List(List {
            topic: self.topic(),
            state,
            from,
            to,
            newest_first,
            last: Vec::new(),
            limit: [1, 2, 3, 100][self.rng.usize(..4)],
        })
    }

    fn histogram(&mut self) -> Action {
        let (from, mut to) = if self.rng.bool() { self.range() } else { (0, LAST_MS + 1) };
        if let Some(msg) = self.model.messages.values().find(|_| self.rng.u8(..6) == 0) {
            to = msg.due();
        }
        let width = [60_000, 600_000, HOUR_MS][self.rng.usize(..3)];
        Action::Histogram { topic: self.topic(), from, to, width }
    }

    /// From a past time to a future time; now and then exactly one due time.
    pub(super) fn range(&mut self) -> (u64, u64) {
        let now = self.model.now();
        if self.rng.u8(..4) == 0 {
            let due = self.due();
            return (due, due);
        }
        (now - self.rng.u64(..HOUR_MS), now + self.rng.u64(..2 * HOUR_MS))
    }
}
