//! The next step of a run: random, and near existing entries.

use super::{HOUR_MS, Run, Weather, receipt_of};
use crate::action::{Action, GiveBack, Item, Mark, Promote, Purge, Reserve, is_generated};
use crate::model::{Msg, Place, index_name};
use crate::snapshot::Name;
use delayq::Backoff;
use delayq::protocol::{Again, DueRule, ExpectedGen};
use fastrand::Rng;
use std::time::Duration;

const TOPICS: [&str; 3] = ["a", "tenant/b", "1-2"];
pub(super) const GROUPS: [&str; 2] = ["user-1", "2:{}"];
pub(super) const LAST_MS: u64 = (1 << 53) - 1;

// === impl Run ===

impl Run {
    /// Advances the clock by nothing, a little, or far. Now and then the clock steps back a little, or far.
    pub(super) fn tick(&mut self) {
        let now_us = self.model.now_us;
        if self.rng.u8(..30) == 0 {
            let back = [1000, 3_000_000, 3 * HOUR_MS * 1000][self.rng.usize(..3)];
            self.model.now_us -= self.rng.u64(..back);
            // A waiting caller uses another clock.
            self.waiting = None;
            return;
        }
        let rng = &mut self.rng;
        let us = match rng.u8(..15) {
            0..4 => 0,
            4..7 => rng.u64(..3000),
            7..9 => rng.u64(..3_000_000),
            9 => rng.u64(..70_000_000),
            10 => rng.u64(..2 * HOUR_MS * 1000),
            // To the end of the last reserve's wait, or just before.
            11 => match self.waiting.clone() {
                Some((wait, reserve)) => {
                    self.likely = Some(Action::Reserve(reserve));
                    (wait * 1000).saturating_sub(rng.u64(..2))
                }
                None => 0,
            },
            // To a dead letter's expiry, or just before.
            12 => match self.model.messages.iter().find(|(_, msg)| msg.place == Place::Dead) {
                Some((name, msg))
                    if msg.expires().is_some_and(|expires| expires < now_us / 1000 + HOUR_MS) =>
                {
                    let topic = self.model.topics[name.0 as usize - 1].clone();
                    self.likely = Some(Action::Replay { topic, delay: 0, ids: vec![name.1.clone()] });
                    let expires = msg.expires().map_or(0, |expires| expires * 1000);
                    expires.saturating_sub(now_us + rng.u64(..2))
                }
                _ => 0,
            },
            // Nowhere: asks too early about a topic that was seen quiet.
            13 if !self.model.quiet.is_empty() && rng.bool() => {
                self.likely = Some(Action::ForgetQuiet { quiet: 1 });
                0
            }
            // To the time at which a topic has been quiet for long enough, or just before.
            13 if rng.bool() => match self.model.quiet.values().next() {
                Some((_, since)) if since + HOUR_MS >= now_us / 1000 => {
                    self.likely = Some(Action::ForgetQuiet { quiet: 1 });
                    ((since + HOUR_MS) * 1000).saturating_sub(now_us) + self.rng.u64(..2000)
                }
                _ => 0,
            },
            // To the very millisecond of a due time, or just before.
            _ => match self.before.index("alarms").values().min().copied() {
                Some(head) if head * 1000 > now_us && head < now_us / 1000 + 100 * HOUR_MS => {
                    self.likely = Some(Action::Pump { epoch: Some(self.model.epoch), limit: 500 });
                    head * 1000 - now_us - rng.u64(..2)
                }
                _ => 0,
            },
        };
        self.model.now_us += us;
    }

    pub(super) fn choose(&mut self) -> Action {
        if let Some(likely) = self.likely.take()
            && self.rng.bool()
        {
            return likely;
        }
        if let Some(receipt) = self.superseded_receipt().filter(|_| self.rng.u8(..4) == 0) {
            return Action::Ack { receipts: vec![receipt] };
        }
        loop {
            let action = if self.rng.u8(..8) == 0 { self.look() } else { self.act() };
            let is_page = action.is_look() || matches!(action, Action::Promote(_) | Action::Purge(_));
            let forgets = matches!(action, Action::Forget { .. } | Action::ForgetQuiet { .. });
            if !(self.model.poisoned && is_page || self.weather == Weather::Poisoned && forgets) {
                return action;
            }
        }
    }

    fn act(&mut self) -> Action {
        if self.weather == Weather::Grouped && self.rng.u8(..16) == 0 {
            return self.pause_group();
        }
        let which = match (self.weather, self.model.grouped.is_empty()) {
            (Weather::Grouped, true) if self.rng.bool() => 94,
            _ => self.rng.u8(..100),
        };
        match which {
            0..22 => self.put(),
            22..24 => self.forget(),
            24..31 => Action::Cancel { topic: self.topic(), ids: self.ids() },
            31..34 => {
                let group = self.group();
                let limit = [100, 2, 1][self.rng.usize(..3)];
                let topic = if self.rng.bool() { self.topic() } else { String::new() };
                Action::CancelGroup { behind: self.mark(&group), group, topic, limit }
            }
            34..42 => self.reschedule(),
            42..45 => self.shift(),
            45..59 => self.pump_action(),
            59..71 => self.reserve(),
            71..76 => Action::Ack { receipts: self.some_receipts() },
            76..78 => {
                let lease = [None, Some(1), Some(5000), Some(200_000)][self.rng.usize(..4)];
                Action::Extend { receipts: self.some_receipts(), lease }
            }
            78..83 => self.release(),
            83..86 => Action::Bury { receipts: self.some_receipts() },
            86..89 => self.replay(),
            89..92 => self.purge_action(),
            92..94 => self.promote_action(),
            94..97 => self.configure(),
            97..98 => {
                let lock = [0, 10_000][self.rng.usize(..2)];
                let owner = ["one", "two", "worker/one", "worker/two"][self.rng.usize(..4)];
                // A worker claims with a lock.
                let lock = if owner.starts_with("worker/") { 10_000 } else { lock };
                Action::Claim { owner: owner.into(), lock }
            }
            98..99 => {
                let epoch = self.model.epoch.saturating_sub(self.rng.u64(..2));
                Action::Hold { epoch, on: self.rng.u8(..3) == 0 }
            }
            _ => {
                let bytes = [&b""[..], b"one", b"two"][self.rng.usize(..3)].to_vec();
                Action::Dictionary { number: self.rng.u64(1..3), bytes }
            }
        }
    }

    /// Pauses groups, resumes them, or asks for the paused ones.
    fn pause_group(&mut self) -> Action {
        let (topic, group) = (self.topic(), self.group());
        let any = self.model.paused_groups.iter().next();
        let last = any.map(|((_, group), at)| (*at, group.clone().into_bytes())).filter(|_| self.rng.bool());
        match self.rng.u8(..5) {
            0 => Action::PausedGroups { topic, last, limit: self.rng.u64(1..3) },
            1 => Action::PauseGroup { topic, pauses: true, groups: GROUPS.map(str::to_owned).to_vec() },
            n => Action::PauseGroup { topic, pauses: n == 2, groups: vec![group] },
        }
    }

    pub(super) fn topic(&mut self) -> String {
        TOPICS[self.rng.usize(..20).min(3) % 3].into()
    }

    pub(super) fn group(&mut self) -> String {
        GROUPS[self.rng.usize(..GROUPS.len())].into()
    }

    /// A mark at the start, after a message of the group, or after a message that has gone.
    pub(super) fn mark(&mut self, group: &str) -> Mark {
        let all = self.model.group(group);
        match (self.rng.u8(..4), all.first()) {
            (0, Some(_)) => all[self.rng.usize(..all.len())].0.clone(),
            (1, Some(((due, name), _))) => (*due, name[..name.len() - 1].to_vec()),
            _ => Mark::default(),
        }
    }

    /// A message with a name in common with others: mostly an own id in its usual group, or in none.
    fn named(&mut self) -> Item {
        let id = match self.rng.u8(..8) {
            0 => b"1:2".to_vec(),
            1 => "ü{}".as_bytes().to_vec(),
            n @ 2..5 => vec![b'a' + n],
            n => [&[1, 2, 3][..], &[n; 13][..]].concat(),
        };
        let any = is_generated(&id) || self.rng.u8(..4) == 0;
        let group = if any { self.rng.usize(..4) } else { usize::from(id[0]) % 4 };
        let item = Item::new(&id, 0);
        match GROUPS.get(group) {
            Some(group) => item.in_group(group),
            None => item,
        }
    }

    pub(super) fn ids(&mut self) -> Vec<Vec<u8>> {
        (0..self.rng.usize(1..4)).map(|_| self.named().id).collect()
    }

    pub(super) fn due(&mut self) -> u64 {
        let now = self.model.now();
        match self.rng.u8(..12) {
            0 => now,
            1 => now - self.rng.u64(..HOUR_MS),
            2..5 => now + self.rng.u64(..3000),
            6 => now - now % HOUR_MS + HOUR_MS - self.rng.u64(..2),
            7 => LAST_MS,
            // At the same millisecond as others.
            5 | 8 | 9 => now - now % 10_000 + 20_000,
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
        let mut items: Vec<Item> = (0..self.rng.usize(1..5)).map(|_| self.item()).collect();
        if self.rng.u8(..4) == 0 {
            let due = self.model.now() + self.rng.u64(..3000);
            items.iter_mut().for_each(|item| item.due = (due + self.rng.u64(..3)).to_string());
        }
        let topic = self.topic();
        let same = items.iter_mut().filter_map(|item| self.follow(item).or_else(|| self.chase(item))).last();
        let topic = same.map_or(topic, |no| self.model.topics[no as usize - 1].clone());
        Action::Put { topic, items }
    }

    /// Now and then lets a put ack a message. Returns the number of the topic if the put takes the place of the message. Unused
    /// options of the put decide: a further draw would change every run and all recorded seeds.
    fn follow(&self, item: &mut Item) -> Option<u32> {
        if item.replace || item.again.due != DueRule::Later {
            return None;
        }
        let is_old = item.tried.take().is_some();
        let held = |receipt: &&Vec<u8>| is_old || self.model.leased_by(receipt).is_some();
        let receipt = self.receipts.iter().filter(held).nth(usize::from(item.content))?;
        item.ack = Some(receipt.clone());
        let named = |(name, _): &(&Name, &Msg)| index_name(name) == receipt[..receipt.len() - 4];
        let (name, msg) =
            self.model.messages.iter().find(named).filter(|(_, msg)| item.again.keep && !msg.is_over())?;
        item.id = name.1.clone();
        item.group = msg.stored.group.as_ref().map(|group| group.as_str().to_owned());
        Some(name.0)
    }

    /// Lets a throttled put meet a message that is no longer pending, if any is. Returns the topic's number.
    fn chase(&self, item: &mut Item) -> Option<u32> {
        let (DueRule::Throttle(window) | DueRule::Swallow(window)) = &mut item.again.due else { return None };
        let is_known = |no: u32| !self.model.topics[no as usize - 1].is_empty();
        let is_met =
            |(name, msg): &(&Name, &Msg)| is_known(name.0) && !is_generated(&name.1) && !msg.is_pending();
        let met: Vec<_> = self.model.messages.iter().filter(is_met).collect();
        let (name, msg) = met.get(window.as_millis() as usize % met.len().max(1)).filter(|_| item.max < 2)?;
        item.replace = true;
        item.id = name.1.clone();
        let group = item.id.iter().position(|&byte| byte == 0x1f).map(|at| &item.id[at + 1..]);
        item.group = group.map(|group| String::from_utf8_lossy(group).into_owned());
        if item.max == 0 {
            item.due = "+0".into();
        }
        // The window ends now, or a millisecond later.
        if item.content == 2 {
            let since = self.model.now().saturating_sub(msg.due()) + u64::from(item.backoff.is_some());
            *window = Duration::from_millis(since.max(1));
        }
        if let Some(tried) = &mut item.tried {
            *tried = msg.due().min(msg.stored.at.get() - 1);
            item.content = msg.stored.hash.map_or(0, |hash| hash.0[0]);
        }
        Some(name.0)
    }

    fn item(&mut self) -> Item {
        let now = self.model.now();
        let mut item = Item { due: self.due_text(), ..self.named() };
        let is_grouped = self.weather == Weather::Grouped;
        let rng = &mut self.rng;
        item.replace = rng.u8(..5) == 0;
        if rng.u8(..2) == 0 {
            item.again = again(rng);
        }
        item.tried = (rng.u8(..6) == 0).then(|| now - rng.u64(..2 * HOUR_MS));
        let longest = [10_000, 2 * HOUR_MS][rng.usize(..2)];
        match (rng.u8(..4) == 0).then(|| rng.u64(..longest)) {
            Some(lifetime) if is_grouped && lifetime % 2 == 1 => item.lifetime = Some(lifetime),
            span => item.expires = span.map(|span| now + span),
        }
        item.backoff = (rng.u8(..3) == 0).then(|| backoff(rng));
        item.max = if rng.u8(..3) == 0 { rng.u16(1..3) } else { 0 };
        item.content = rng.u8(..3);
        if item.again.due == DueRule::Content {
            self.expect(&mut item);
        }
        item
    }

    /// Usually the due time of the message, its content, or both.
    fn expect(&self, item: &mut Item) {
        let old = self.model.messages.values().find(|msg| msg.is_pending());
        let old = self.model.messages.iter().find(|((_, id), _)| *id == item.id).map(|(_, msg)| msg).or(old);
        let Some(old) = old else { return };
        if item.max < 2 {
            item.again.expected = Some(old.stored.due);
        }
        if item.max > 0 {
            item.again.content = old.stored.hash;
        }
        // The scripts choose the gens.
        item.again.generation = (item.content == 0).then_some(ExpectedGen::Any);
    }

    fn reschedule(&mut self) -> Action {
        let topic = self.topic();
        let no = self.model.no(&topic).unwrap_or(0);
        let changes = self.ids().into_iter().map(|id| self.change(no, id)).collect();
        Action::Reschedule { topic, changes }
    }

    fn change(&mut self, no: u32, id: Vec<u8>) -> (Vec<u8>, String, Option<u64>) {
        let is = self.model.messages.get(&(no, id.clone())).map_or(self.model.now(), Msg::due);
        let expected = is + u64::from(self.rng.u8(..4) == 0);
        match self.rng.u8(..4) {
            0 if is < 1 << 50 => (id, format!("by {:+}", self.rng.i64(-5000..5000)), Some(expected)),
            1 => (id, self.due_text(), Some(expected)),
            _ => (id, self.due_text(), None),
        }
    }

    /// Continues a shift in progress; now and then another shift tries to interrupt.
    fn shift(&mut self) -> Action {
        let (group, limit) = (self.group(), self.rng.u64(1..4));
        let other = self.rng.usize(..4);
        let under_way = self.model.shifts.get(&group).filter(|shift| !shift.over && self.rng.u8(..4) > 0);
        // Each token has its own difference, so that a late repeat carries the same.
        let topic = under_way.map(|shift| shift.topic.clone());
        let token = under_way.map_or_else(|| other.to_string(), |shift| shift.token.clone());
        let by =
            [1000, -1000, 70_000, -(HOUR_MS as i64)][token.parse::<usize>().expect("tokens are numbers")];
        let of_any = self.rng.bool();
        let topic = topic.unwrap_or_else(|| if of_any { String::new() } else { self.topic() });
        Action::ShiftGroup { group, topic, token, by, limit }
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
        let lease = [None, Some(1), Some(1000), Some(60_000)][self.rng.usize(..4)];
        let (most, max_bytes) =
            ([1, 2, 3, 100][self.rng.usize(..4)], [0, 0, 0, 1, 50, 100][self.rng.usize(..6)]);
        Action::Reserve(Reserve { topics, most, max_bytes, lease })
    }

    fn superseded_receipt(&self) -> Option<Vec<u8>> {
        let names: Vec<&[u8]> =
            self.model.messages.values().filter_map(receipt_of).map(|new| name_of(new)).collect();
        let is_superseded =
            |old: &&Vec<u8>| names.contains(&name_of(old)) && self.model.leased_by(old).is_none();
        self.receipts.iter().find(is_superseded).cloned()
    }

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
            let delay = [None, None, Some(0), Some(700), Some(HOUR_MS)][self.rng.usize(..5)];
            GiveBack { receipt, delay, keep: self.rng.u8(..3) == 0 }
        };
        Action::Release { all: receipts.into_iter().map(one).collect() }
    }

    fn replay(&mut self) -> Action {
        let topic = self.topic();
        let no = self.model.no(&topic).unwrap_or(0);
        let delay = [0, 0, 500, HOUR_MS][self.rng.usize(..4)];
        let dead = self.model.messages.iter().filter(|(name, msg)| name.0 == no && msg.place == Place::Dead);
        let mut ids: Vec<_> = dead.map(|(name, _)| name.1.clone()).take(self.rng.usize(1..4)).collect();
        if ids.is_empty() || self.rng.u8(..4) == 0 {
            ids = self.ids();
        }
        Action::Replay { topic, delay, ids }
    }

    fn purge_action(&mut self) -> Action {
        if let Some(next) = self.cursors.purge.clone().filter(|_| self.rng.bool()) {
            return Action::Purge(next);
        }
        let state = ["delayed", "ready", "dead"][self.rng.usize(..3)];
        let (from, to) = self.range();
        let (topic, limit) = (self.topic(), self.rng.u64(1..4));
        Action::Purge(Purge { topic, state, from, to, last: Vec::new(), limit })
    }

    fn promote_action(&mut self) -> Action {
        if let Some(next) = self.cursors.promote.clone().filter(|_| self.rng.bool()) {
            return Action::Promote(next);
        }
        let which = self.rng.u8(..3);
        let topic = if which == 0 { String::new() } else { self.topic() };
        let group = if which == 1 { String::new() } else { self.group() };
        let (from, to) = self.range();
        let limit = self.rng.u64(1..4);
        Action::Promote(Promote { topic, group, from, to, last: Vec::new(), limit })
    }

    fn forget(&mut self) -> Action {
        match self.rng.u8(..3) {
            0 => Action::Forget { topic: self.topic() },
            _ => Action::ForgetQuiet { quiet: [1, HOUR_MS][self.rng.usize(..2)] },
        }
    }

    fn configure(&mut self) -> Action {
        let settings = (0..self.rng.usize(1..3)).map(|_| self.setting()).collect();
        Action::Configure { topic: self.topic(), settings }
    }

    fn setting(&mut self) -> (&'static str, Vec<u8>) {
        if self.weather == Weather::Grouped && self.rng.u8(..4) > 0 {
            let limit = ["1", "1", "2", "0", ""][self.rng.usize(..5)];
            let now = self.model.now() as usize;
            if now.is_multiple_of(2) {
                return ("group_failed", ["block", "block", "pass", ""][now / 2 % 4].as_bytes().to_vec());
            }
            if now % 7 < 2 {
                return ("group_rate", ["5/s", "200/s", "40/m", "0", ""][now / 7 % 5].as_bytes().to_vec());
            }
            if now % 5 < 2 {
                return (
                    "group_order",
                    ["fair", "fair", "fair", "ready", ""][now / 5 % 5].as_bytes().to_vec(),
                );
            }
            return ("group_in_flight", limit.as_bytes().to_vec());
        }
        let (rng, now) = (&mut self.rng, self.model.now() as usize);
        let (field, value) = match rng.u8(..15) {
            0 => ("paused", ["1", ""][rng.usize(..2)]),
            // Often, since only a second rate finds a bucket that is too full for the new rate.
            1 | 12 | 13 => ("rate", ["5", "0.05", "33.3", "250", ""][rng.usize(..5)]),
            2 => ("max_attempts", ["0", "1", "3", ""][rng.usize(..4)]),
            3 => ("lease_ms", ["10", ""][rng.usize(..2)]),
            4 => ("expire_after_ms", ["2000", "7200000", "0"][rng.usize(..3)]),
            5 => ("remember_cancelled_ms", ["0", "1000", "7200000"][rng.usize(..3)]),
            6 => ("remember_own_ms", ["0", "5000"][rng.usize(..2)]),
            7 => ("remember_generated_ms", ["0", "5000"][rng.usize(..2)]),
            // Fixed, 1 s; exponential, 2 ms to 5 ms; list of 1 ms and 515 ms.
            8 | 11 => {
                let written =
                    ["\u{1}\0\0\u{3}h", "\u{2}\0\0\0\u{2}\0\0\0\u{5}", "\u{3}\0\0\0\u{1}\0\0\u{2}\u{3}"];
                ("backoff", written[rng.usize(..3)])
            }
            9 => ("codec", ["none", "zstd", ""][rng.usize(..3)]),
            10 => ("repeats", ["refuse", "deliver", ""][rng.usize(..3)]),
            _ if now.is_multiple_of(4) => ("history_for_ms", ["1000", "60000", ""][now / 4 % 3]),
            _ => ("history", ["100", "200", "100", "0", ""][now % 5]),
        };
        (field, value.as_bytes().to_vec())
    }
}

/// A back-off of any kind.
fn again(rng: &mut Rng) -> Again {
    let due = match rng.u8(..5) {
        0 => DueRule::New,
        1 => DueRule::Later,
        2 => DueRule::Sooner,
        _ => spanned([rng.u64(1..3000), rng.u64(1..2 * HOUR_MS)][rng.usize(..2)]),
    };
    match (due, rng.bool()) {
        // A further draw would change every run and all recorded seeds.
        (DueRule::Sooner, false) => Again { due: DueRule::Content, ..Again::default() },
        (due, keep) => Again { due, keep, ..Again::default() },
    }
}

/// A debounce, or a throttle in a window of any length, also longer than the topic remembers.
fn spanned(ms: u64) -> DueRule {
    let window = Duration::from_millis(1 + ms % 70_000);
    match ms % 8 {
        0 | 1 => DueRule::Throttle(window),
        2 => DueRule::Swallow(window),
        _ => DueRule::Within(Duration::from_millis(ms)),
    }
}

fn backoff(rng: &mut Rng) -> Backoff {
    let mut delay = |most| Duration::from_millis(rng.u64(1..most));
    let (first, more) = (delay(3000), delay(3000));
    match rng.u8(..3) {
        0 => Backoff::Fixed(first),
        1 => Backoff::Exponential { first, longest: first + more },
        _ => Backoff::List(vec![first, more, first]),
    }
}

fn name_of(receipt: &[u8]) -> &[u8] {
    &receipt[..receipt.len() - 4]
}
