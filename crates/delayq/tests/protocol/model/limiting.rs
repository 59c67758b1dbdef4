//! Limits and pauses of groups: the messages that a reserve parks, and those that it takes once their group has room.

use super::reserving::{Tally, Terms, Verdict};
use super::{Call, Model, Msg, Outcome, Place, same};
use crate::snapshot::{Name, Snapshot, lossy};
use std::collections::{BTreeMap, BTreeSet};

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
        self.is_paused_group(no, group) || self.in_flight(no, group) >= limit
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
                parked.insert(group);
                continue;
            }
            self.take_one(&name, entry, (limit, terms), (tally, call))?;
            taken += 1;
        }
        if parked.iter().any(|group| !self.is_full(no, group, limit) && !self.is_blocked(no, group)) {
            tally.come_back(0.0);
        }
        parking.compare(no, call.after)?;
        Ok(taken)
    }

    fn take_turns(
        &mut self,
        limit: u64,
        terms: &Terms,
        tally: &mut Tally,
        (parking, call): (&mut Parking, &Call<'_>),
    ) -> Result<u64, String> {
        let mut turns: Vec<_> = call
            .before
            .index(&format!("n:{}", terms.no))
            .iter()
            .map(|(group, at)| (*at, group.clone()))
            .collect();
        turns.sort();
        let visits = tally.wanted.min(terms.most).min(500) as usize;
        turns.truncate(visits);
        let mut taken = 0;
        for (_, group) in &turns {
            if taken == terms.most || tally.is_spent(terms) {
                break;
            }
            let list = parking.lists.get(group).cloned().unwrap_or_default();
            let mut visited = 0;
            for entry in &list {
                let is_full = self.is_full(terms.no, group, limit);
                if taken == terms.most || tally.is_spent(terms) || is_full {
                    break;
                }
                let Verdict::Ready(name) = self.judge(entry, terms, tally, call) else {
                    visited += 1;
                    continue;
                };
                if self.is_blocked(terms.no, group) && !self.leads(&name) {
                    break;
                }
                visited += 1;
                self.take_one(&name, entry, (limit, terms), (tally, call))?;
                taken += 1;
            }
            if visited == list.len() {
                parking.lists.remove(group);
                parking.queued.remove(group);
            } else {
                parking.lists.insert(group.clone(), list[visited..].to_vec());
            }
        }
        if visits > 0 && turns.len() == visits && terms.most > taken && tally.wanted > 0 {
            tally.come_back(0.0);
        }
        Ok(taken)
    }

    fn take_one(
        &mut self,
        name: &Name,
        entry: &[u8],
        (limit, terms): (u64, &Terms),
        (tally, call): (&mut Tally, &Call<'_>),
    ) -> Outcome {
        let receipt = self.hand_out(name, entry, terms, (tally, call))?;
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
        Self { queued: shard.index(&format!("k:{no}")).keys().cloned().collect(), lists }
    }

    fn compare(self, no: u32, shard: &Snapshot) -> Outcome {
        let found = Self::of(no, shard);
        same("parked entries", found.lists, self.lists)?;
        same("groups with parked messages", found.queued, self.queued)
    }
}

pub(crate) fn is_among(flights: &BTreeSet<Vec<u8>>, msg: &Msg) -> bool {
    matches!(&msg.place, Place::Leased { receipt, .. } if flights.contains(receipt))
}
