//! What a shard should be: every message in one place, in memory.

use crate::{
    action::{Action, GiveBack, Item, REASON, is_generated},
    snapshot::{Name, Snapshot, lossy},
};
use delayq_core::Envelope;
use std::collections::BTreeMap;

/// Where a message is.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Place {
    Delayed,
    Ready,
    Leased { receipt: Vec<u8>, until: u64 },
    Dead,
    Over { word: &'static str, forget: u64 },
}

/// One message, or what is remembered of it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Msg {
    pub(crate) place: Place,
    /// Every field as it must be stored; state and gen are left to the place and to the scripts.
    pub(crate) stored: Envelope,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Shift {
    pub(crate) token: String,
    pub(crate) by: i64,
    pub(crate) over: bool,
    pub(crate) forget: u64,
    /// How often each message was moved under the token.
    pub(crate) moved: BTreeMap<Name, u32>,
}

/// A shard in memory.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Model {
    pub(crate) now_us: u64,
    /// Topic names by their number, from 1.
    pub(crate) topics: Vec<String>,
    pub(crate) settings: BTreeMap<(u32, String), String>,
    pub(crate) messages: BTreeMap<Name, Msg>,
    pub(crate) books: BTreeMap<(&'static str, u32), i64>,
    pub(crate) shifts: BTreeMap<String, Shift>,
    pub(crate) epoch: u64,
    pub(crate) owner: Option<(String, u64)>,
    pub(crate) held: bool,
}

type Outcome = Result<(), String>;

#[allow(clippy::needless_pass_by_value, reason = "words and numbers alike, at hand where they are compared")]
fn same<T: PartialEq + std::fmt::Debug>(what: &str, got: T, wanted: T) -> Outcome {
    if got == wanted { Ok(()) } else { Err(format!("{what}: {got:?}, should be {wanted:?}")) }
}

fn ms(at: u64) -> delayq_core::UnixMillis {
    delayq_core::UnixMillis::new(at)
}

// === impl Msg ===

impl Msg {
    pub(crate) fn is_pending(&self) -> bool {
        matches!(self.place, Place::Delayed | Place::Ready)
    }

    pub(crate) fn due(&self) -> u64 {
        self.stored.due.get()
    }

    pub(crate) fn expires(&self) -> Option<u64> {
        self.stored.expires.map(delayq_core::UnixMillis::get)
    }

    pub(crate) fn in_group(&self, group: &str) -> bool {
        let here = self.stored.group.as_ref().is_some_and(|own| own.as_str() == group);
        here && matches!(self.place, Place::Delayed | Place::Ready | Place::Leased { .. })
    }

    pub(crate) fn word(&self) -> &'static str {
        match self.place {
            Place::Delayed => "delayed",
            Place::Ready => "ready",
            Place::Leased { .. } => "leased",
            Place::Dead => "dead",
            Place::Over { word, .. } => word,
        }
    }
}

// === impl Model ===

impl Model {
    pub(crate) fn now(&self) -> u64 {
        self.now_us / 1000
    }

    pub(crate) fn no(&self, topic: &str) -> Option<u32> {
        self.topics.iter().position(|name| name == topic).map(|at| at as u32 + 1)
    }

    fn open(&mut self, topic: &str) -> u32 {
        self.no(topic).unwrap_or_else(|| {
            self.topics.push(topic.to_owned());
            self.topics.len() as u32
        })
    }

    pub(crate) fn policy(&self, no: u32, field: &str) -> u64 {
        let default = match field {
            "max_attempts" => 16,
            "lease_ms" => 30_000,
            "remember_cancelled_ms" => 3_600_000,
            "remember_own_ms" => 60_000,
            _ => 0,
        };
        self.settings.get(&(no, field.to_owned())).map_or(default, |value| value.parse().unwrap())
    }

    fn book(&mut self, counter: &'static str, no: u32) {
        *self.books.entry((counter, no)).or_default() += 1;
    }

    /// What the answer must be, what the shard must have become; learns what only the scripts can know.
    pub(crate) fn apply(
        &mut self,
        action: &Action,
        answer: &[Vec<u8>],
        before: &Snapshot,
        after: &Snapshot,
    ) -> Outcome {
        let words: Vec<String> = answer.iter().map(|item| lossy(item)).collect();
        match action {
            Action::Put { topic, items } => {
                let no = self.open(topic);
                same("now", &words[0], &self.now_us.to_string())?;
                let wanted: Vec<String> = items.iter().map(|item| self.put(no, item)).collect();
                same("put", &words[1..], &wanted)
            }
            Action::Cancel { topic, ids } => {
                let no = self.no(topic);
                let wanted: Vec<String> = ids
                    .iter()
                    .map(|id| no.map_or_else(|| "unknown".into(), |no| self.cancel(&(no, id.clone()))))
                    .collect();
                same("cancel", words, wanted)
            }
            Action::CancelGroup { group, cursor, limit } => self.cancel_group(group, *cursor, *limit, &words),
            Action::Reschedule { topic, changes } => {
                let no = self.no(topic);
                for ((id, due, expected), word) in changes.iter().zip(&words) {
                    let wanted = match no {
                        None => "unknown".to_owned(),
                        Some(no) => self.reschedule(&(no, id.clone()), due, *expected),
                    };
                    same("reschedule", word, &wanted)?;
                }
                same("answers", words.len(), changes.len())
            }
            Action::ShiftGroup { group, token, by, limit } => {
                self.shift_group((group, token, *by, *limit), &words, after)
            }
            Action::Pump { epoch, limit } => self.pump(*epoch, *limit, &words, after),
            Action::Reserve { topics, most, lease } => {
                self.reserve(topics, *most, *lease, (answer, before, after))
            }
            Action::Ack { receipts } => {
                let held: Vec<Option<Name>> =
                    receipts.iter().map(|receipt| self.leased_by(receipt)).collect();
                for (name, word) in held.iter().zip(&words) {
                    same("ack", word.as_str(), if name.is_some() { "delivered" } else { "expired" })?;
                }
                for name in held.into_iter().flatten() {
                    if matches!(self.messages.get(&name), Some(Msg { place: Place::Leased { .. }, .. })) {
                        self.finish(&name, "delivered");
                    }
                }
                Ok(())
            }
            Action::Extend { receipts, lease } => self.extend(receipts, *lease, &words),
            Action::Release { all } => {
                all.iter().zip(&words).try_for_each(|(one, word)| self.release(one, word))
            }
            Action::Bury { receipts } => receipts.iter().zip(&words).try_for_each(|(receipt, word)| {
                let Some(name) = self.leased_by(receipt) else {
                    return same("bury", word.as_str(), "expired");
                };
                self.kill(&name, REASON);
                same("bury", word.as_str(), "buried")
            }),
            Action::Replay { topic, delay, ids } => {
                let no = self.no(topic);
                let wanted: Vec<String> = ids
                    .iter()
                    .map(|id| {
                        no.map_or_else(|| "unknown".into(), |no| self.replay(&(no, id.clone()), *delay))
                    })
                    .collect();
                same("replay", words, wanted)
            }
            Action::Purge { topic, state, from, to, limit } => {
                self.purge(topic, state, (*from, *to, *limit), (&words, before, after))
            }
            Action::Configure { topic, field, value } => {
                let no = self.open(topic);
                if value.is_empty() {
                    self.settings.remove(&(no, (*field).to_owned()));
                } else {
                    self.settings.insert((no, (*field).to_owned()), value.clone());
                }
                Ok(())
            }
            Action::Claim { owner, lock } => self.claim(owner, *lock, &words),
            Action::Hold { epoch, on } => {
                let fenced = *epoch < self.epoch;
                let wanted = match (fenced, on) {
                    (true, _) => format!("fenced {}", self.epoch),
                    (_, true) => "held".to_owned(),
                    (_, false) => "free".to_owned(),
                };
                if !fenced {
                    self.held = *on;
                }
                same("hold", &words[0], &wanted)
            }
            Action::Count { topic } => self.count(topic, &words),
            Action::Peek { topic, ids } => {
                for (id, bytes) in ids.iter().zip(&answer[1..]) {
                    let name = (self.no(topic).unwrap_or(0), id.clone());
                    let state = self.messages.get(&name).map_or("", Msg::word);
                    let seen = (!bytes.is_empty()).then(|| Envelope::decode(bytes).unwrap().state.word());
                    same("peek", seen.unwrap_or(""), state)?;
                }
                Ok(())
            }
        }
    }

    fn due_of(&self, text: &str) -> u64 {
        text.strip_prefix('+')
            .map_or_else(|| text.parse().unwrap(), |ms| self.now() + ms.parse::<u64>().unwrap())
    }

    fn place_for(&self, due: u64) -> Place {
        if due <= self.now() && !self.held { Place::Ready } else { Place::Delayed }
    }

    fn put(&mut self, no: u32, item: &Item) -> String {
        let (due, now, name) = (self.due_of(&item.due), self.now(), (no, item.id.clone()));
        let mut stored = item.envelope();
        let after = self.policy(no, "expire_after_ms");
        if after > 0 && stored.expires.is_none() && due + after < 1 << 53 {
            stored.expires = Some(ms(due + after));
        }
        if stored.expires.is_some_and(|expires| expires <= ms(due)) {
            return "refused expiry not after the due time".into();
        }
        match self.messages.get(&name) {
            None => {
                let cancelled = self.policy(no, "remember_cancelled_ms");
                let own = self.policy(no, "remember_own_ms").min(cancelled);
                let remember = if is_generated(&item.id) { cancelled } else { own };
                if item.tried.is_some_and(|tried| tried + remember < now) {
                    return "stale".into();
                }
            }
            Some(old) if item.replace && matches!(old.place, Place::Leased { .. }) => return "leased".into(),
            Some(old) if item.replace => {
                if !matches!(old.place, Place::Over { .. }) {
                    self.book("replaced", no);
                }
            }
            Some(old) => {
                let alike = stored.hash.is_none() || stored.hash == old.stored.hash;
                let pending = old.is_pending() || matches!(old.place, Place::Leased { .. });
                let time = if pending { old.stored.due } else { old.stored.at };
                return format!("{} {} {time}", if alike { "exists" } else { "conflict" }, old.word());
            }
        }
        self.book("accepted", no);
        (stored.due, stored.at) = (ms(due), ms(now));
        if stored.max_attempts == 0 {
            stored.max_attempts = self.policy(no, "max_attempts") as u16;
        }
        let place = self.place_for(due);
        let word = if place == Place::Ready { "ready" } else { "stored" };
        self.messages.insert(name, Msg { place, stored });
        word.into()
    }

    fn finish(&mut self, name: &Name, outcome: &'static str) {
        self.book(outcome, name.0);
        let remember = match outcome {
            "cancelled" => self.policy(name.0, "remember_cancelled_ms"),
            _ if is_generated(&name.1) => self.policy(name.0, "remember_generated_ms"),
            _ => self.policy(name.0, "remember_own_ms"),
        };
        let now = self.now();
        if remember == 0 {
            self.messages.remove(name);
            return;
        }
        let msg = self.messages.get_mut(name).unwrap();
        msg.place = Place::Over { word: outcome, forget: now + remember };
        let old = &msg.stored;
        let mut marker = Item::new(b"x", 0).envelope();
        (marker.hash, marker.due, marker.at) = (old.hash, old.due, ms(now));
        (marker.delivery, marker.attempt, marker.max_attempts) =
            (old.delivery, old.attempt, old.max_attempts);
        msg.stored = marker;
    }

    fn cancel(&mut self, name: &Name) -> String {
        let Some(msg) = self.messages.get_mut(name) else { return "unknown".into() };
        match &msg.place {
            Place::Leased { .. } => {
                msg.stored.doomed = true;
                "leased".into()
            }
            Place::Dead => "dead".into(),
            Place::Over { word: "cancelled", .. } => "cancelled".into(),
            Place::Over { word, .. } => format!("finished {word} {}", msg.stored.at),
            Place::Delayed | Place::Ready => {
                self.finish(name, "cancelled");
                "cancelled".into()
            }
        }
    }

    /// The messages of a group in the order of its index.
    pub(crate) fn group(&self, group: &str) -> Vec<Name> {
        let mut all: Vec<(u64, Vec<u8>, &Name)> = self
            .messages
            .iter()
            .filter(|(_, msg)| msg.in_group(group))
            .map(|(name, msg)| (msg.due(), index_name(name), name))
            .collect();
        all.sort();
        all.into_iter().map(|(_, _, name)| name.clone()).collect()
    }

    fn cancel_group(&mut self, group: &str, cursor: u64, limit: u64, words: &[String]) -> Outcome {
        let step: Vec<Name> =
            self.group(group).into_iter().skip(cursor as usize).take(limit as usize).collect();
        let answers: Vec<String> = step.iter().map(|name| self.cancel(name)).collect();
        let leased = answers.iter().filter(|word| *word == "leased").count();
        let next =
            if step.len() as u64 == limit { (cursor + leased as u64).to_string() } else { String::new() };
        let cancelled = (answers.len() - leased).to_string();
        same("cancel_group", words, &[next, cancelled, leased.to_string(), "0".into()])
    }

    fn reschedule(&mut self, name: &Name, text: &str, expected: Option<u64>) -> String {
        let Some(msg) = self.messages.get(name) else { return "unknown".into() };
        match &msg.place {
            Place::Leased { .. } => return "leased".into(),
            Place::Dead => return "dead".into(),
            Place::Over { word, .. } => return format!("finished {word} {}", msg.stored.at),
            Place::Delayed | Place::Ready => {}
        }
        let due = match text.strip_prefix("by ") {
            Some(by) => expected.and_then(|expected| expected.checked_add_signed(by.parse().unwrap())),
            None => Some(self.due_of(text)),
        };
        let (old, expires) = (msg.due(), msg.expires());
        let Some(due) = due.filter(|&due| due > 0) else { return "refused due time".into() };
        if expires.is_some_and(|expires| expires <= due) {
            return "refused expiry not after the due time".into();
        }
        if expected.is_some_and(|expected| old != expected && old != due) {
            return format!("changed {old}");
        }
        self.move_to(name, due);
        format!("{} {old} {due}", self.messages[name].word())
    }

    fn move_to(&mut self, name: &Name, due: u64) {
        if self.messages[name].due() != due {
            self.put_to(name, due);
        }
    }

    fn put_to(&mut self, name: &Name, due: u64) {
        let (place, now) = (self.place_for(due), self.now());
        let msg = self.messages.get_mut(name).unwrap();
        (msg.place, msg.stored.due, msg.stored.at) = (place, ms(due), ms(now));
    }

    fn shift_group(
        &mut self,
        (group, token, by, limit): (&str, &str, i64, u64),
        words: &[String],
        after: &Snapshot,
    ) -> Outcome {
        let now = self.now();
        if let Some(shift) = self.shifts.get(group) {
            if shift.token == token && shift.over {
                return same("shift_group", words, &["done".to_owned(), "0".into(), "0".into()]);
            }
            if shift.token != token && !shift.over {
                return same("shift_group", words, &["busy".to_owned(), "0".into(), "0".into()]);
            }
        }
        let mut shift = match self.shifts.remove(group) {
            Some(shift) if shift.token == token => shift,
            _ => Shift { token: token.into(), by, over: false, forget: 0, moved: BTreeMap::new() },
        };
        same("difference", by, shift.by)?;
        let fits = |msg: &Msg| {
            let due = msg.due().checked_add_signed(by).filter(|&due| due > 0);
            msg.is_pending() && due.is_some_and(|due| msg.expires().is_none_or(|expires| expires > due))
        };
        let mut moved = 0;
        for name in self.group(group) {
            let msg = &self.messages[&name];
            let due = msg.due().saturating_add_signed(by);
            let stored = after.envelope(&name).ok_or_else(|| format!("{name:?} is gone"))?;
            if stored.due.get() == due && msg.due() != due {
                same("a message that may move", fits(msg), true)?;
                *shift.moved.entry(name.clone()).or_default() += 1;
                moved += 1;
                self.put_to(&name, due);
            }
        }
        same("moved", &words[1], &moved.to_string())?;
        let passed: u64 = words[2].parse().map_err(|_| "no number of passed over")?;
        if moved + passed > limit {
            return Err(format!("{moved} + {passed} at a limit of {limit}"));
        }
        shift.over = words[0] == "done";
        same("word", &words[0], &if shift.over { "done" } else { "more" }.to_owned())?;
        shift.forget = now + 3_600_000;
        self.shifts.insert(group.to_owned(), shift);
        Ok(())
    }

    /// The step of the pump is the script's choice; what it may choose, and what it may not leave, is not.
    fn pump(&mut self, epoch: Option<u64>, limit: u64, words: &[String], after: &Snapshot) -> Outcome {
        let now = self.now();
        let told: Vec<u64> = words[3..9].iter().map(|word| word.parse().unwrap()).collect();
        let idle = |word: &str, words: &[String]| {
            same("pump", words[0].as_str(), word)?;
            same("moved while idle", words[3..9].iter().all(|n| n == "0"), true)
        };
        if self.held {
            return idle("held", words);
        }
        match epoch {
            None if words[0] == "not overdue" => {
                let overdue = self.times().any(|(_, time)| time + 10_000 < now);
                return same("something is long overdue", overdue, false);
            }
            Some(epoch) if epoch < self.epoch => return idle(&format!("fenced {}", self.epoch), words),
            Some(epoch) => self.epoch = epoch,
            None => {}
        }
        let (mut ready, mut expired_delayed) = (0, 0);
        let (mut returned, mut buried, mut expired, mut forgotten) = (0, 0, 0, 0);
        for name in self.messages.keys().cloned().collect::<Vec<_>>() {
            let msg = self.messages[&name].clone();
            let stored = after.envelope(&name);
            let over = stored.as_ref().is_none_or(|stored| stored.state.is_over());
            let is_expired = msg.expires().is_some_and(|expires| expires <= now);
            match msg.place {
                Place::Delayed | Place::Ready if over => {
                    same("expiry of what went", is_expired, true)?;
                    expired += 1;
                    expired_delayed += u64::from(msg.place == Place::Delayed);
                    self.finish(&name, "expired");
                }
                Place::Delayed if msg.due() <= now => {
                    let stored = stored.unwrap();
                    let member = [&name.1[..], &stored.generation.to_be_bytes()].concat();
                    if !after.in_bucket(name.0, &member) {
                        ready += 1;
                        self.messages.get_mut(&name).unwrap().place = Place::Ready;
                    }
                }
                Place::Leased { until, .. } if until <= now => {
                    let still = stored.as_ref().is_some_and(|stored| stored.state.word() == "leased");
                    if !still {
                        returned += 1;
                        let due = stored.map(|stored| stored.due.get());
                        match self.give_back(&name, None, "its lease ran out at the last attempt", due)? {
                            "buried" => buried += 1,
                            "expired" => expired += 1,
                            _ => {}
                        }
                    }
                }
                Place::Over { forget, .. } if forget <= now && stored.is_none() => {
                    forgotten += 1;
                    self.messages.remove(&name);
                }
                _ => {}
            }
        }
        let gone = |group: &String| !after.hashes.contains_key(&format!("shift:{group}"));
        let over: Vec<String> = self
            .shifts
            .iter()
            .filter(|(group, s)| s.forget <= now && gone(group))
            .map(|(g, _)| g.clone())
            .collect();
        over.iter().for_each(|group| drop(self.shifts.remove(group)));
        if told[0] < ready || told[0] > ready + expired_delayed {
            return Err(format!("moved {} of {ready} to {}", told[0], ready + expired_delayed));
        }
        same(
            "returned, buried, expired, forgotten, blocked",
            &told[1..],
            &[returned, buried, expired, forgotten, 0],
        )?;
        let moved: u64 = words[9..].chunks(2).map(|run| run[1].parse::<u64>().unwrap()).sum();
        same("messages of the runs", moved, told[0])?;
        if told[0] + returned + forgotten + over.len() as u64 > limit {
            return Err(format!("{told:?} at a limit of {limit}"));
        }
        match words[0].as_str() {
            "more" => Ok(()),
            "pumped" => match self.times().find(|(_, time)| *time <= now) {
                None => Ok(()),
                Some((what, time)) => Err(format!("{what} of {time} is left at {now}")),
            },
            other => Err(format!("pump: {other}")),
        }
    }

    /// Every time that the pump has to keep.
    fn times(&self) -> impl Iterator<Item = (String, u64)> {
        let shifts = self.shifts.iter().map(|(group, shift)| (format!("shift of {group}"), shift.forget));
        let of = |(name, msg): (&Name, &Msg)| {
            let expires = msg.expires().filter(|_| msg.is_pending());
            let own = match msg.place {
                Place::Delayed => Some(msg.due()),
                Place::Leased { until, .. } => Some(until),
                Place::Over { forget, .. } => Some(forget),
                Place::Ready | Place::Dead => None,
            };
            let word = format!("{} {name:?}", msg.word());
            [own, expires].into_iter().flatten().map(move |time| (word.clone(), time)).collect::<Vec<_>>()
        };
        self.messages.iter().flat_map(of).chain(shifts).collect::<Vec<_>>().into_iter()
    }

    pub(crate) fn leased_by(&self, receipt: &[u8]) -> Option<Name> {
        let held = |msg: &Msg| matches!(&msg.place, Place::Leased { receipt: own, .. } if own == receipt);
        self.messages.iter().find(|(_, msg)| held(msg)).map(|(name, _)| name.clone())
    }

    fn kill(&mut self, name: &Name, reason: &str) {
        self.book("buried", name.0);
        let now = self.now();
        let msg = self.messages.get_mut(name).unwrap();
        (msg.place, msg.stored.at, msg.stored.reason) = (Place::Dead, ms(now), Some(reason.to_owned()));
    }

    /// `due`: where the scripts say it is now; only a back-off by chance needs it.
    fn give_back(
        &mut self,
        name: &Name,
        delay: Option<u64>,
        reason: &str,
        due: Option<u64>,
    ) -> Result<&'static str, String> {
        let now = self.now();
        let msg = self.messages[name].clone();
        if msg.stored.doomed {
            self.finish(name, "cancelled");
            return Ok("cancelled");
        }
        if msg.expires().is_some_and(|expires| expires <= now) {
            self.finish(name, "expired");
            return Ok("expired");
        }
        if msg.stored.max_attempts > 0 && msg.stored.attempt >= msg.stored.max_attempts {
            self.kill(name, reason);
            return Ok("buried");
        }
        let chosen = due.ok_or("a message given back is gone")?;
        let (low, high) = match (delay, &msg.stored.backoff) {
            (Some(delay), _) => (delay, delay),
            (None, Some(delayq_core::Backoff::Fixed(delay))) => {
                (delay.as_millis() as u64, delay.as_millis() as u64)
            }
            (None, _) => {
                let whole = 600_000.min(1000_u64 << u32::from(msg.stored.attempt.max(1) - 1).min(32));
                (whole / 2, whole)
            }
        };
        if chosen < now + low || chosen > now + high {
            return Err(format!("given back until {chosen}, not {low} to {high} ms from {now}"));
        }
        self.put_to(name, chosen);
        Ok(self.messages[name].word())
    }

    fn release(&mut self, one: &GiveBack, word: &str) -> Outcome {
        let Some(name) = self.leased_by(&one.receipt) else { return same("release", word, "expired") };
        if one.keep {
            let stored = &mut self.messages.get_mut(&name).unwrap().stored;
            stored.attempt = stored.attempt.saturating_sub(1);
        }
        let (state, due) = word.split_once(' ').unwrap_or((word, ""));
        match self.give_back(&name, one.delay, REASON, due.parse().ok())? {
            "expired" => same("release", word, "expired-message"),
            wanted => same("release", state, wanted),
        }
    }

    fn extend(&mut self, receipts: &[Vec<u8>], lease: Option<u64>, words: &[String]) -> Outcome {
        for (receipt, word) in receipts.iter().zip(words) {
            let Some(name) = self.leased_by(receipt) else {
                same("extend", word.as_str(), "expired")?;
                continue;
            };
            let until = self.now() + lease.unwrap_or_else(|| self.policy(name.0, "lease_ms"));
            let msg = self.messages.get_mut(&name).unwrap();
            msg.place = Place::Leased { receipt: receipt.clone(), until };
            msg.stored.at = ms(until);
            let doomed = if msg.stored.doomed { "cancelled " } else { "" };
            same("extend", word, &format!("{doomed}{until}"))?;
        }
        Ok(())
    }

    fn replay(&mut self, name: &Name, delay: u64) -> String {
        let Some(msg) = self.messages.get_mut(name) else { return "unknown".into() };
        if msg.place != Place::Dead {
            return format!("not dead {}", msg.word());
        }
        (msg.stored.attempt, msg.stored.doomed, msg.stored.reason) = (0, false, None);
        let due = self.now() + delay;
        self.put_to(name, due);
        format!("{} {due}", self.messages[name].word())
    }

    fn purge(
        &mut self,
        topic: &str,
        state: &str,
        (from, to, limit): (u64, u64, u64),
        (words, before, after): (&[String], &Snapshot, &Snapshot),
    ) -> Outcome {
        let Some(no) = self.no(topic) else {
            return same("purge", &words[..2], &["done".to_owned(), "0".into()]);
        };
        let may = |msg: &Msg| {
            let time = if msg.place == Place::Dead { msg.stored.at } else { msg.stored.due };
            msg.word() == state && (state == "ready" || (from..=to).contains(&time.get()))
        };
        let all: Vec<Name> = self
            .messages
            .iter()
            .filter(|(name, msg)| name.0 == no && may(msg))
            .map(|(n, _)| n.clone())
            .collect();
        let mut purged = 0;
        for name in &all {
            if after.envelope(name).is_none_or(|stored| stored.state.is_over()) {
                self.finish(name, "purged");
                purged += 1;
            }
        }
        let looked = before.ready.get(&no).map_or(0, Vec::len) as u64;
        let went_by_stale = state == "ready" && looked > limit;
        let least = if went_by_stale { 0 } else { all.len().min(1) };
        if purged < least || purged as u64 > limit || words[1] != purged.to_string() {
            return Err(format!("purged {purged} of {} at a limit of {limit}: {words:?}", all.len()));
        }
        same("nothing is left when done", words[0] == "done" && purged < all.len(), false)
    }

    fn claim(&mut self, owner: &str, lock: u64, words: &[String]) -> Outcome {
        let now = self.now();
        let (known, until) = self.owner.clone().unwrap_or_default();
        let locked = until > now;
        let (word, holder) = match (lock > 0 && locked, known == owner) {
            (true, false) => ("owned", known),
            (true, true) => ("renewed", known),
            _ => ("claimed", owner.to_owned()),
        };
        if word == "claimed" {
            self.epoch += 1;
        }
        if word != "owned" {
            self.owner = Some((owner.to_owned(), if lock > 0 { now + lock } else { 0 }));
        }
        let wanted = [word.to_owned(), self.epoch.to_string(), self.now_us.to_string(), holder];
        same("claim", &words[..4], &wanted)
    }

    fn count(&self, topic: &str, words: &[String]) -> Outcome {
        let Some(no) = self.no(topic) else { return same("count", words.len(), 3) };
        let all = |word: &str| {
            self.messages.iter().filter(|(name, msg)| name.0 == no && msg.word() == word).count() as u64
        };
        let book = |counter| self.books.get(&(counter, no)).copied().unwrap_or(0) as u64;
        let mut wanted = vec![all("delayed"), all("ready"), all("leased"), all("dead")];
        for counter in ["accepted", "delivered", "cancelled", "expired", "purged", "replaced", "buried"] {
            wanted.push(book(counter));
        }
        same("books", wanted[4], wanted[5..10].iter().sum::<u64>() + wanted[..4].iter().sum::<u64>())?;
        let told: Vec<u64> =
            words[1..2].iter().chain(&words[3..13]).map(|word| word.parse().unwrap()).collect();
        same("count", told, wanted)
    }

    fn reserve(
        &mut self,
        topics: &[String],
        most: u64,
        lease: Option<u64>,
        (answer, before, after): (&[Vec<u8>], &Snapshot, &Snapshot),
    ) -> Outcome {
        let number = |at: usize| lossy(&answer[at]).parse::<u64>().unwrap();
        same("now", number(0), self.now_us)?;
        let (mut at, mut wanted, mut dropped, mut expired) = (6, most, 0, 0);
        for (place, topic) in topics.iter().enumerate() {
            let Some(no) = self.no(topic).filter(|_| wanted > 0) else { continue };
            let until = self.now() + lease.unwrap_or_else(|| self.policy(no, "lease_ms"));
            same("place", number(at), place as u64 + 1)?;
            same("lease end", number(at + 1), until)?;
            let (count, mut left) = (number(at + 2), number(at + 2));
            at += 3;
            let paused = self.settings.contains_key(&(no, "paused".into()));
            let rated = self.settings.contains_key(&(no, "rate".into()));
            let mut most_here = if paused { 0 } else { wanted };
            if rated {
                most_here = count;
            }
            let queue = before.ready.get(&no).cloned().unwrap_or_default();
            let mut entries = queue.iter();
            while most_here > 0 {
                let Some(entry) = entries.next() else { break };
                let name = (no, entry[..entry.len() - 11].to_vec());
                let gen_here = &entry[entry.len() - 11..entry.len() - 7];
                let live = self.messages.get(&name).is_some_and(|msg| msg.place == Place::Ready)
                    && before.bodies[&name][4..8] == *gen_here;
                if !live {
                    dropped += 1;
                } else if self.messages[&name].expires().is_some_and(|expires| expires <= self.now()) {
                    expired += 1;
                    self.finish(&name, "expired");
                } else {
                    if left == 0 {
                        return Err(format!("{name:?} was left in its queue"));
                    }
                    let stamp = entry[entry.len() - 7..].iter().fold(0, |n, &byte| n << 8 | u64::from(byte));
                    same("ready time", number(at), stamp)?;
                    same("envelope", &answer[at + 2], &before.bodies[&name])?;
                    self.lease(&name, &answer[at + 1], until)?;
                    (at, left, most_here, wanted) = (at + 3, left - 1, most_here - 1, wanted - 1);
                }
            }
            same("reserved too many", left, 0)?;
            // Behind the last that a rate lets go, what is not delivered may have been looked at, or not.
            if rated {
                let over = |name: &Name| after.envelope(name).is_none_or(|stored| stored.state.is_over());
                let gone =
                    |(name, msg): &(&Name, &Msg)| name.0 == no && msg.place == Place::Ready && over(name);
                let gone: Vec<Name> =
                    self.messages.iter().filter(gone).map(|(name, _)| name.clone()).collect();
                for name in gone {
                    let is_expired =
                        self.messages[&name].expires().is_some_and(|expires| expires <= self.now());
                    same("expiry of what went", is_expired, true)?;
                    self.finish(&name, "expired");
                }
                return Ok(());
            }
        }
        same("length", answer.len(), at)?;
        let head: Vec<String> = answer[1..6].iter().map(|item| lossy(item)).collect();
        let wanted = [String::new(), dropped.to_string(), expired.to_string(), "0".into(), "0".into()];
        same("reserve", head.as_slice(), wanted.as_slice())
    }

    fn lease(&mut self, name: &Name, receipt: &[u8], until: u64) -> Outcome {
        let prefix = index_name(name);
        same("receipt", receipt.strip_suffix(&receipt[receipt.len() - 4..]), Some(prefix.as_slice()))?;
        let msg = self.messages.get_mut(name).unwrap();
        msg.place = Place::Leased { receipt: receipt.to_vec(), until };
        msg.stored.at = ms(until);
        msg.stored.delivery += 1;
        msg.stored.attempt += 1;
        Ok(())
    }
}

/// As the indexes of groups, expiries and markers write a message.
pub(crate) fn index_name(name: &Name) -> Vec<u8> {
    [format!("{}:", name.0).as_bytes(), &name.1].concat()
}
