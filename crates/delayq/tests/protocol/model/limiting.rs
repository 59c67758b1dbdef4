//! Limits, pauses and order of groups: the messages that a reserve parks, and those that it takes once their group has room.

use super::reserving::{Tally, Terms, Verdict};
use super::{Call, Model, Msg, Outcome, Place, same};
use crate::snapshot::{Name, Snapshot, lossy};
use std::collections::{BTreeMap, BTreeSet};

/// The messages without a group, in fair order.
pub(crate) const NO_GROUP: &str = "\x01";

/// A place in the ready queue of a topic, or in the list of a group's parked messages.
pub(super) struct QueueAt<'a> {
    no: u32,
    pub(super) entries: &'a [Vec<u8>],
    pub(super) place: Vec<u8>,
    /// Time and name of the group; `None` for the ready queue.
    group: Option<(u64, Vec<u8>)>,
}

#[derive(Default)]
struct Parking {
    /// Groups with parked messages.
    queued: BTreeSet<Vec<u8>>,
    lists: BTreeMap<Vec<u8>, Vec<Vec<u8>>>,
    /// Groups with a turn, in the order of their turns.
    turns: Vec<Vec<u8>>,
    /// The next tokens of groups that were left waiting for one.
    tokens: BTreeMap<Vec<u8>, u64>,
}

// === impl QueueAt ===

impl<'a> QueueAt<'a> {
    pub(super) fn of(no: u32, text: &[u8], shard: &'a Snapshot) -> Self {
        let mut parts = text.splitn(3, |&byte| byte == 0x1F);
        let since = parts.next().and_then(|since| lossy(since).parse().ok());
        let (Some(since), Some(group), Some(place)) = (since, parts.next(), parts.next()) else {
            let entries = shard.ready.get(&no).map_or(&[][..], Vec::as_slice);
            return Self { no, entries, place: text.to_vec(), group: None };
        };
        let entries = shard.parked.get(&(no, lossy(group))).map_or(&[][..], Vec::as_slice);
        let group = Some((since, group.to_vec()));
        Self { no, entries, place: place.to_vec(), group }
    }

    pub(super) fn within(&self, place: &[u8]) -> Vec<u8> {
        self.group.as_ref().map_or(place.to_vec(), |group| behind(group, place))
    }

    /// The start of the next group's list.
    pub(super) fn next(&self, shard: &Snapshot) -> Option<Vec<u8>> {
        let groups =
            shard.index(&format!("k:{}", self.no)).iter().map(|(group, since)| (*since, group.clone()));
        let next = groups.filter(|next| self.group.as_ref().is_none_or(|own| next > own)).min()?;
        Some(behind(&next, b""))
    }
}

fn behind((since, group): &(u64, Vec<u8>), place: &[u8]) -> Vec<u8> {
    [since.to_string().as_bytes(), b"\x1f", group, b"\x1f", place].concat()
}

// === impl Model ===

impl Model {
    /// `None` for a topic whose groups never had a limit; `u64::MAX` after a limit that is gone. An old limit is forgotten
    /// with the last message that it may concern.
    pub(super) fn group_limit(&mut self, no: u32, call: &Call<'_>) -> Option<u64> {
        let limit = self.setting(no, "group_in_flight").map_or(0, |most| lossy(most).parse().unwrap());
        let is_limited = self.grouped.contains(&no);
        let any_leased = self.messages.iter().any(|(name, msg)| name.0 == no && msg.is_leased());
        let any_paused = self.any_paused_group(no);
        let blocks = self.blocks_groups(no);
        if limit == 0
            && !any_leased
            && !any_paused
            && !blocks
            && !self.is_fair(no)
            && self.pace(no).is_none()
            && call.before.index(&format!("k:{no}")).is_empty()
        {
            self.grouped.remove(&no);
        }
        is_limited.then_some(if limit == 0 { u64::MAX } else { limit })
    }

    pub(crate) fn any_paused_group(&self, no: u32) -> bool {
        self.paused_groups.keys().any(|(own, _)| *own == no)
    }

    pub(crate) fn is_paused_group(&self, no: u32, group: &[u8]) -> bool {
        self.paused_groups.contains_key(&(no, lossy(group)))
    }

    pub(super) fn pause_groups(
        &mut self,
        topic: &str,
        pauses: bool,
        groups: &[String],
        call: &Call<'_>,
    ) -> Outcome {
        let Some(no) = self.no(topic).or_else(|| pauses.then(|| self.open(topic))) else {
            return same("resume", call.number(0)?, 0);
        };
        let (had, now) = (self.paused_groups.len(), self.now());
        for group in groups {
            let name = (no, group.clone());
            if pauses {
                self.paused_groups.entry(name).or_insert(now);
                self.grouped.insert(no);
            } else {
                self.paused_groups.remove(&name);
            }
        }
        same("changed pauses", call.number(0)?, had.abs_diff(self.paused_groups.len()) as u64)
    }

    /// Paused groups in the order of their pauses.
    pub(super) fn pauses_of(&self, no: u32) -> Vec<(u64, Vec<u8>)> {
        let own = self.paused_groups.iter().filter(|((own, _), _)| *own == no);
        let mut pauses: Vec<_> = own.map(|((_, group), at)| (*at, group.clone().into_bytes())).collect();
        pauses.sort();
        pauses
    }

    /// µs between two messages of a group.
    pub(crate) fn pace(&self, no: u32) -> Option<u64> {
        let rate = lossy(self.setting(no, "group_rate")?);
        let (messages, unit) = rate.split_once('/')?;
        let second: u64 = 1_000_000;
        let unit = match unit {
            "s" => second,
            "m" => 60 * second,
            _ => 3600 * second,
        };
        Some(unit.div_ceil(messages.parse().unwrap()))
    }

    /// When the bucket of a group is empty, as the clock sees it now.
    fn empty_at(&self, no: u32, group: &[u8]) -> u64 {
        self.group_rates.get(&(no, group.to_vec())).copied().unwrap_or(0).max(self.now_us)
    }

    /// The time of the next token of a group that has none.
    fn next_token(&self, no: u32, group: &[u8]) -> Option<u64> {
        let pace = self.pace(no).filter(|_| !self.is_paused_group(no, group))?;
        let next = self.empty_at(no, group) + pace - pace.max(100_000);
        Some(next).filter(|next| *next > self.now_us)
    }

    pub(crate) fn is_fair(&self, no: u32) -> bool {
        self.setting(no, "group_order") == Some(b"fair".as_slice())
    }

    /// Nothing joins the ready queue of a topic in fair order.
    pub(super) fn queue_is_left(&self, call: &Call<'_>) -> Outcome {
        for no in 1..=self.topics.len() as u32 {
            let before = call.before.hashes.get(&format!("t:{no}"));
            let was_fair =
                before.is_some_and(|topic| topic.get("group_order").is_some_and(|order| order == b"fair"));
            let queue = |shard: &Snapshot| shard.ready.get(&no).cloned().unwrap_or_default();
            if was_fair && self.is_fair(no) && !queue(call.before).ends_with(&queue(call.after)) {
                return Err(format!("an entry joined the ready queue of topic {no}, which is in fair order"));
            }
        }
        Ok(())
    }

    pub(crate) fn blocks_groups(&self, no: u32) -> bool {
        self.setting(no, "group_failed") == Some(b"block".as_slice())
    }

    /// Marks a failed message of a topic where failures block.
    pub(super) fn block_group(&mut self, name: &Name) {
        if self.blocks_groups(name.0) {
            let stored = &mut self.messages.get_mut(name).unwrap().stored;
            stored.blocks = stored.group.is_some();
        }
    }

    pub(crate) fn is_blocked(&self, no: u32, group: &[u8]) -> bool {
        let is_of = |msg: &Msg| msg.stored.group.as_ref().is_some_and(|own| own.as_str().as_bytes() == group);
        let blocks = |(name, msg): (&Name, &Msg)| name.0 == no && msg.stored.blocks && is_of(msg);
        self.blocks_groups(no) && self.messages.iter().any(blocks)
    }

    /// True if a failed message goes first in the group.
    pub(crate) fn leads(&self, name: &Name) -> bool {
        self.blocks_groups(name.0) && self.messages[name].stored.blocks
    }

    fn is_full(&self, no: u32, group: &[u8], limit: u64) -> bool {
        let has_no_limit = group == NO_GROUP.as_bytes();
        !has_no_limit
            && (self.is_paused_group(no, group)
                || self.in_flight(no, group) >= limit
                || self.next_token(no, group).is_some())
    }

    pub(crate) fn in_flight(&self, no: u32, group: &[u8]) -> u64 {
        let counts = |(name, msg): &(&Name, &Msg)| {
            name.0 == no && msg.in_group(&lossy(group)) && is_among(&self.flights, msg)
        };
        self.messages.iter().filter(counts).count() as u64
    }

    /// Groups with a turn come first, in the order of their turns. A message waits behind the parked messages of its group.
    pub(super) fn take_within(
        &mut self,
        limit: u64,
        terms: &Terms,
        tally: &mut Tally,
        call: &Call<'_>,
    ) -> Result<u64, String> {
        let no = terms.no;
        let mut parking = Parking::of(no, call.before);
        if let Some(pace) = self.pace(no) {
            self.give_tokens(no, pace, (&mut parking, call));
        }
        if self.is_fair(no) {
            return self.take_fairly(limit, terms, tally, (parking, call));
        }
        let mut taken = self.take_turns(limit, terms, tally, (&mut parking, call))?;
        let mut parked = BTreeSet::new();
        for entry in call.before.ready.get(&no).into_iter().flatten() {
            if taken == terms.most || tally.is_spent(terms) {
                break;
            }
            let Verdict::Ready(name) = self.judge(entry, terms, tally, call) else { continue };
            let group = self.messages[&name].stored.group.clone();
            let group = group.map(|group| group.as_str().as_bytes().to_vec());
            let leads = self.leads(&name);
            if let Some(group) = group
                && (self.is_full(no, &group, limit)
                    || !leads && (parking.queued.contains(&group) || self.is_blocked(no, &group)))
            {
                let list = parking.lists.entry(group.clone()).or_default();
                list.insert(if leads { 0 } else { list.len() }, entry.clone());
                parking.queued.insert(group.clone());
                parking.await_token(self.next_token(no, &group), &group);
                parked.insert(group);
                continue;
            }
            self.take_one(&name, entry, (limit, terms), (tally, call))?;
            taken += 1;
        }
        if parked.iter().any(|group| !self.is_full(no, group, limit) && !self.is_blocked(no, group)) {
            tally.come_back(0.0);
        }
        self.await_tokens(terms, (taken, tally), call);
        parking.compare(no, call.after)?;
        Ok(taken)
    }

    /// Groups that have a token again get a turn, and so do those that would wait for longer than a token takes. Full buckets
    /// are forgotten.
    fn give_tokens(&mut self, no: u32, pace: u64, (parking, call): (&mut Parking, &Call<'_>)) {
        let now = self.now_us;
        let waiting = call.before.index(&format!("y:{no}"));
        let mut waiting: Vec<_> = waiting.iter().map(|(group, at)| (*at, group.clone())).collect();
        waiting.sort();
        for (_, group) in waiting.into_iter().filter(|(at, _)| *at <= now || *at > now + pace) {
            if parking.queued.contains(&group) && !parking.turns.contains(&group) {
                parking.turns.push(group);
            }
        }
        self.group_rates.retain(|(own, _), empty| *own != no || *empty > now);
        let buckets = self.group_rates.iter_mut().filter(|((own, _), _)| *own == no);
        buckets.for_each(|(_, empty)| *empty = (*empty).min(now + pace.max(100_000)));
    }

    /// The next call comes when the next group has a token.
    fn await_tokens(&self, terms: &Terms, (taken, tally): (u64, &mut Tally), call: &Call<'_>) {
        let first = call.after.index(&format!("y:{}", terms.no)).values().min().copied();
        if let Some(at) = first.filter(|_| self.pace(terms.no).is_some())
            && terms.most > taken
            && tally.wanted > 0
        {
            tally.come_back(at.saturating_sub(self.now_us) as f64 / 1000.0);
        }
    }

    fn take_turns(
        &mut self,
        limit: u64,
        terms: &Terms,
        tally: &mut Tally,
        (parking, call): (&mut Parking, &Call<'_>),
    ) -> Result<u64, String> {
        let visits = tally.wanted.min(terms.most).min(500) as usize;
        parking.turns.truncate(visits);
        let mut taken = 0;
        for group in &parking.turns.clone() {
            if taken == terms.most || tally.is_spent(terms) {
                break;
            }
            let share = terms.most - taken;
            taken += self.take_turn(group, (limit, share), (terms, tally), (parking, call))?.0;
        }
        if visits > 0 && parking.turns.len() == visits && terms.most > taken && tally.wanted > 0 {
            tally.come_back(0.0);
        }
        Ok(taken)
    }

    /// What was ready before the order was fair is parked first. Then the groups share what is wanted, one after the other.
    fn take_fairly(
        &mut self,
        limit: u64,
        terms: &Terms,
        tally: &mut Tally,
        (mut parking, call): (Parking, &Call<'_>),
    ) -> Result<u64, String> {
        let queue = call.before.ready.get(&terms.no).filter(|_| terms.most > 0 && !tally.is_spent(terms));
        for entry in queue.into_iter().flatten() {
            let Verdict::Ready(name) = self.judge(entry, terms, tally, call) else { continue };
            let stored = &self.messages[&name].stored;
            let group = stored.group.as_ref().map_or(NO_GROUP, |group| group.as_str()).as_bytes().to_vec();
            let leads = self.leads(&name);
            let list = parking.lists.entry(group.clone()).or_default();
            list.insert(if leads { 0 } else { list.len() }, entry.clone());
            parking.queued.insert(group.clone());
            parking.await_token(self.next_token(terms.no, &group), &group);
            let may_go =
                !self.is_full(terms.no, &group, limit) && (leads || !self.is_blocked(terms.no, &group));
            if may_go && !parking.turns.contains(&group) {
                parking.turns.push(group);
            }
        }
        let visits = tally.wanted.min(terms.most).min(500) as usize;
        let mut waiting: Vec<_> = parking.turns.iter().take(visits).cloned().collect();
        let (is_page, mut taken) = (visits > 0 && waiting.len() == visits, 0);
        while !waiting.is_empty() && taken < terms.most && !tally.is_spent(terms) {
            let share = (tally.wanted.min(terms.most - taken) / waiting.len() as u64).max(1);
            let mut again = Vec::new();
            for group in waiting {
                if taken == terms.most || tally.is_spent(terms) {
                    break;
                }
                let share = share.min(terms.most - taken);
                let (got, goes_on) =
                    self.take_turn(&group, (limit, share), (terms, tally), (&mut parking, call))?;
                taken += got;
                parking.turns.retain(|other| *other != group);
                if goes_on {
                    parking.turns.push(group.clone());
                    again.push(group);
                }
            }
            waiting = again;
        }
        if is_page && terms.most > taken && tally.wanted > 0 {
            tally.come_back(0.0);
        }
        self.await_tokens(terms, (taken, tally), call);
        same("turns", turns(terms.no, call.after), std::mem::take(&mut parking.turns))?;
        parking.compare(terms.no, call.after)?;
        Ok(taken)
    }

    /// Takes at most a share of the parked messages of one group. Returns how many, and true if the group could go on.
    fn take_turn(
        &mut self,
        group: &[u8],
        (limit, share): (u64, u64),
        (terms, tally): (&Terms, &mut Tally),
        (parking, call): (&mut Parking, &Call<'_>),
    ) -> Result<(u64, bool), String> {
        let list = parking.lists.get(group).cloned().unwrap_or_default();
        let (mut visited, mut taken, mut is_stopped) = (0, 0, false);
        for entry in &list {
            if taken == share || tally.is_spent(terms) || self.is_full(terms.no, group, limit) {
                break;
            }
            let Verdict::Ready(name) = self.judge(entry, terms, tally, call) else {
                visited += 1;
                continue;
            };
            is_stopped = self.is_blocked(terms.no, group) && !self.leads(&name);
            if is_stopped {
                break;
            }
            visited += 1;
            self.take_one(&name, entry, (limit, terms), (tally, call))?;
            taken += 1;
        }
        let is_over = visited == list.len();
        if is_over {
            parking.lists.remove(group);
            parking.queued.remove(group);
        } else {
            parking.lists.insert(group.to_vec(), list[visited..].to_vec());
        }
        let goes_on = !is_over && !is_stopped && !self.is_full(terms.no, group, limit);
        if !is_over && !goes_on {
            parking.await_token(self.next_token(terms.no, group), group);
        }
        Ok((taken, goes_on))
    }

    fn take_one(
        &mut self,
        name: &Name,
        entry: &[u8],
        (limit, terms): (u64, &Terms),
        (tally, call): (&mut Tally, &Call<'_>),
    ) -> Outcome {
        let receipt = self.hand_out(name, entry, terms, (tally, call))?;
        let group = self.messages[name].stored.group.as_ref().map(|group| group.as_str().as_bytes().to_vec());
        if let Some(pace) = self.pace(terms.no)
            && let Some(group) = group
        {
            let empty = self.empty_at(terms.no, &group) + pace;
            self.group_rates.insert((terms.no, group), empty);
        }
        if limit < u64::MAX && self.messages[name].stored.group.is_some() {
            self.flights.insert(receipt);
        }
        Ok(())
    }
}

// === impl Parking ===

impl Parking {
    fn of(no: u32, shard: &Snapshot) -> Self {
        let lists = shard.parked.iter().filter(|((own, _), _)| *own == no);
        let lists =
            lists.map(|((_, group), entries)| (group.clone().into_bytes(), entries.clone())).collect();
        let queued = shard.index(&format!("k:{no}")).keys().cloned().collect();
        Self { queued, lists, turns: turns(no, shard), tokens: BTreeMap::new() }
    }

    fn await_token(&mut self, next: Option<u64>, group: &[u8]) {
        self.tokens.extend(next.map(|next| (group.to_vec(), next)));
    }

    fn compare(self, no: u32, shard: &Snapshot) -> Outcome {
        let found = Self::of(no, shard);
        for (group, next) in &self.tokens {
            let told = shard.index(&format!("y:{no}")).get(group).copied();
            same("the next token of a group", told, Some(*next))?;
        }
        same("parked entries", found.lists, self.lists)?;
        same("groups with parked messages", found.queued, self.queued)
    }
}

/// Groups with a turn, in the order of their turns.
pub(super) fn turns(no: u32, shard: &Snapshot) -> Vec<Vec<u8>> {
    let turns = shard.index(&format!("n:{no}"));
    let mut turns: Vec<_> = turns.iter().map(|(group, at)| (*at, group.clone())).collect();
    turns.sort();
    turns.into_iter().map(|(_, group)| group).collect()
}

pub(crate) fn is_among(flights: &BTreeSet<Vec<u8>>, msg: &Msg) -> bool {
    matches!(&msg.place, Place::Leased { receipt, .. } if flights.contains(receipt))
}
