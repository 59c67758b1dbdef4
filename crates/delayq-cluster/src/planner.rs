//! Makes the plan: a pure function of the number of shards, the members and the previous plan.
//!
//! First every shard stays in place, if its member may keep the shard. Each shard without a place goes to the member
//! with the fewest shards. Then the fullest member gives to the emptiest until their counts differ by at most one. So a
//! shard moves only from a member that has too many shards, is gone, or cannot reach the shard while another member
//! can.
//!
//! A member that cannot reach some shards keeps its other shards, and is given no further shards while any member
//! reaches all: a short outage moves no more shards than necessary.

use crate::keys::MemberId;
use crate::plan::{Plan, PlannedMember};
use crate::reach::Reach;
use delayq::ShardCount;
use delayq::protocol::ShardRanges;
use std::collections::{BTreeMap, BTreeSet};

/// A member as the planner sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// This life of the member.
    pub id: MemberId,
    /// The member's name: a candidate inherits the shards of a namesake that is gone.
    pub name: String,
    /// The member is ending, or drained by an operator: the plan gives this member no shards.
    pub draining: bool,
    /// Shards that the member cannot reach now: the plan gives each to a member that reaches the shard, if any does.
    pub hindered: ShardRanges,
}

/// The shards of a member: shards without an earlier place to leave are `true`, and move first.
type Seat = BTreeSet<(bool, u16)>;

/// The members being filled, and their order by number of shards.
struct Table {
    reach: Reach,
    seats: Vec<Seat>,
    order: BTreeSet<(usize, usize)>,
    /// The order of the members that reach every shard that any member reaches.
    able: BTreeSet<(usize, usize)>,
}

/// Computes the next plan.
///
/// The result does not depend on the order of `candidates`, and equals `previous`, version included, when no shard has
/// to move. Costs O((S + M) log M) for S shards and M members, while any member reaches every shard.
pub fn compute(shards: ShardCount, candidates: &[Candidate], previous: Option<&Plan>, by: &MemberId) -> Plan {
    let members = eligible(candidates);
    let kept = kept_places(previous, &members);
    let reach = Reach::new(shards, members.iter().map(|member| &member.hindered));
    let (mut table, mut homeless) = (Table::new(members.len(), reach), Vec::new());
    for shard in 0..shards.get() {
        match kept.get(usize::from(shard)).copied().flatten() {
            Some(seat) if table.reach.has(seat, shard) => table.give(seat, (false, shard)),
            _ => homeless.push(shard),
        }
    }
    for shard in homeless {
        if let Some(seat) = table.emptiest_for(shard) {
            table.give(seat, (true, shard));
        }
    }
    table.level();
    table.into_plan(&members, shards, previous, by)
}

/// Ordered by id.
fn eligible(candidates: &[Candidate]) -> Vec<&Candidate> {
    let fit = candidates.iter().filter(|candidate| !candidate.draining);
    let by_id: BTreeMap<&MemberId, &Candidate> = fit.map(|candidate| (&candidate.id, candidate)).collect();
    by_id.into_values().collect()
}

/// One entry for each shard of the previous plan.
fn kept_places(previous: Option<&Plan>, members: &[&Candidate]) -> Vec<Option<usize>> {
    let Some(previous) = previous else { return Vec::new() };
    let by_id: BTreeMap<&MemberId, usize> = members.iter().enumerate().map(|(i, m)| (&m.id, i)).collect();
    let mut heirs: BTreeMap<&str, BTreeSet<(&MemberId, usize)>> = BTreeMap::new();
    let stayed: BTreeSet<&MemberId> = previous.members().iter().map(|m| &m.id).collect();
    for (i, member) in members.iter().enumerate().filter(|(_, m)| !stayed.contains(&m.id)) {
        heirs.entry(&member.name).or_default().insert((&member.id, i));
    }
    let mut inherit = |old: &PlannedMember| {
        let new = by_id.get(&old.id).copied();
        new.or_else(|| heirs.get_mut(old.name.as_str())?.pop_first().map(|(_, i)| i))
    };
    let places: Vec<Option<usize>> = previous.members().iter().map(&mut inherit).collect();
    previous.places().iter().map(|place| place.and_then(|place| places[usize::from(place)])).collect()
}

// === impl Table ===

impl Table {
    fn new(members: usize, reach: Reach) -> Self {
        let order: BTreeSet<_> = (0..members).map(|seat| (0, seat)).collect();
        let able = order.iter().filter(|(_, seat)| reach.is_whole(*seat)).copied().collect();
        Self { reach, seats: vec![Seat::new(); members], order, able }
    }

    fn give(&mut self, seat: usize, shard: (bool, u16)) {
        self.change(seat, |seat| _ = seat.insert(shard));
    }

    fn take(&mut self, seat: usize) -> Option<(bool, u16)> {
        let mut taken = None;
        self.change(seat, |seat| taken = seat.pop_last());
        taken
    }

    /// Also corrects the member's place in the orders.
    fn change(&mut self, seat: usize, change: impl FnOnce(&mut Seat)) {
        let before = self.seats[seat].len();
        change(&mut self.seats[seat]);
        let now = self.seats[seat].len();
        for order in [&mut self.order, &mut self.able] {
            if order.remove(&(before, seat)) {
                order.insert((now, seat));
            }
        }
    }

    /// The member with the fewest shards: among the members that reach all shards, or else among the members that reach
    /// this shard.
    fn emptiest_for(&self, shard: u16) -> Option<usize> {
        let reaching = || self.order.iter().find(|(_, seat)| self.reach.has(*seat, shard));
        self.able.first().or_else(reaching).map(|&(_, seat)| seat)
    }

    /// Moves shards from the fullest member to the emptiest that reaches all shards until their counts differ by at
    /// most one. Each move narrows the gap.
    fn level(&mut self) {
        while let (Some(&(least, to)), Some(&(most, from))) = (self.able.first(), self.order.last())
            && most > least + 1
            && let Some(shard) = self.take(from)
        {
            self.give(to, shard);
        }
    }

    fn into_plan(
        self,
        members: &[&Candidate],
        shards: ShardCount,
        previous: Option<&Plan>,
        by: &MemberId,
    ) -> Plan {
        let named = members.iter().zip(self.seats).filter(|(_, seat)| !seat.is_empty());
        let mut owners = vec![None; usize::from(shards.get())];
        let mut planned = Vec::new();
        for (place, (member, seat)) in (0_u16..).zip(named) {
            seat.into_iter().for_each(|(_, shard)| owners[usize::from(shard)] = Some(place));
            planned.push(PlannedMember { id: member.id.clone(), name: member.name.clone() });
        }
        match previous {
            Some(plan) if plan.members() == planned && plan.places() == owners => plan.clone(),
            _ => Plan::new(previous.map_or(0, |plan| plan.version) + 1, by.clone(), planned, owners),
        }
    }
}

#[cfg(test)]
mod tests;
