//! Makes the plan: a pure function of the shards' loads, the members and the plan before.
//!
//! First every shard stays where it is, if its member may keep it. Shards without a place go, heaviest first, to whichever member
//! carries the least for its weight. Then the most loaded member gives to the least loaded one for as long as that makes
//! the larger of the two smaller. So no shard moves but from a member that has too much or is gone, and at the end a
//! fullest member cannot give any shard to an emptiest without making that one as full as itself: with equal weights,
//! the counts differ by one at most.

use crate::keys::MemberId;
use crate::plan::{Plan, PlannedMember};
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

/// A member as the planner sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// This life of the member.
    pub id: MemberId,
    /// Its name: a candidate inherits the shards of a namesake that is gone.
    pub name: String,
    /// Its failure zone: among equals, zones take turns.
    pub zone: String,
    /// How much it can carry, relative to the others. 0 counts as 1.
    pub weight: u16,
    /// Whether it is on its way out, or drained by an operator: it gets nothing.
    pub draining: bool,
    /// Whether it cannot do its work now: it gets nothing for as long as another can.
    pub hindered: bool,
}

/// A member being filled.
struct Seat {
    fill: Fill,
    /// By weight, then those that have no earlier place to leave, then by number.
    shards: BTreeSet<(u32, bool, u16)>,
}

/// How full a member is; ordered by load per weight.
#[derive(Clone, Copy, Debug)]
struct Fill {
    load: u64,
    weight: u64,
    turn: usize,
}

/// The members being filled, in order of fullness.
struct Table {
    seats: Vec<Seat>,
    order: BTreeSet<Fill>,
}

/// The next plan.
///
/// `weights` holds each shard's load weight, by shard number (0 counts as 1). The result does not depend on the order of
/// `candidates`, and equals `previous`, version included, when no shard has to move. Costs O((S + M) log (S + M)) for S
/// shards and M members.
pub fn compute(weights: &[u32], candidates: &[Candidate], previous: Option<&Plan>, by: &MemberId) -> Plan {
    let members = in_turn(candidates);
    let mut table = Table::new(&members);
    let mut homeless = Vec::new();
    let kept = kept_places(previous, &members);
    for (shard, &weight) in (0_u16..).zip(weights) {
        match kept.get(usize::from(shard)).copied().flatten() {
            Some(seat) => table.give(seat, weight.max(1), false, shard),
            None => homeless.push((std::cmp::Reverse(weight.max(1)), shard)),
        }
    }
    homeless.sort_unstable();
    for (std::cmp::Reverse(weight), shard) in homeless {
        if let Some(emptiest) = table.order.first().map(|fill| fill.turn) {
            table.give(emptiest, weight, true, shard);
        }
    }
    table.level(weights.len());
    table.into_plan(&members, weights.len(), previous, by)
}

/// How full the fullest member is under a plan, in thousandths of load per weight. For deciding whether a new plan is
/// worth its moves.
pub(crate) fn peak(weights: &[u32], candidates: &[Candidate], plan: &Plan) -> u64 {
    let capacity: BTreeMap<&MemberId, u64> =
        candidates.iter().map(|c| (&c.id, u64::from(c.weight.max(1)))).collect();
    let mut loads = vec![0_u64; plan.members().len()];
    for (place, &weight) in plan.places().iter().zip(weights) {
        if let Some(place) = place {
            loads[usize::from(*place)] += u64::from(weight.max(1));
        }
    }
    let full = |(member, load): (&PlannedMember, u64)| load * 1000 / capacity.get(&member.id).unwrap_or(&1);
    plan.members().iter().zip(loads).map(full).max().unwrap_or(0)
}

/// The members that may own shards, in the order in which equals take turns: one of each zone, then the next of each.
/// Where all are hindered, the cause lies outside of them: moving shards among them helps nobody.
fn in_turn(candidates: &[Candidate]) -> Vec<&Candidate> {
    let someone_can = candidates.iter().any(|c| !c.draining && !c.hindered);
    let mut by_id: BTreeMap<&MemberId, &Candidate> = BTreeMap::new();
    for candidate in candidates.iter().filter(|c| !(c.draining || c.hindered && someone_can)) {
        by_id.insert(&candidate.id, candidate);
    }
    let mut taken: BTreeMap<&str, usize> = BTreeMap::new();
    let mut turns: Vec<(usize, &Candidate)> = by_id
        .into_values()
        .map(|candidate| {
            let seen = taken.entry(&candidate.zone).or_insert(0);
            *seen += 1;
            (*seen, candidate)
        })
        .collect();
    turns.sort_by(|(a_turn, a), (b_turn, b)| (a_turn, &a.zone, &a.id).cmp(&(b_turn, &b.zone, &b.id)));
    turns.into_iter().map(|(_, candidate)| candidate).collect()
}

/// For each shard of the plan before, the member that keeps it.
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

// === impl Fill ===

impl Ord for Fill {
    fn cmp(&self, other: &Self) -> Ordering {
        let (mine, theirs) = (per_weight(self.load, other.weight), per_weight(other.load, self.weight));
        // Among equals the stronger one comes first: a shard fills it less.
        mine.cmp(&theirs).then(other.weight.cmp(&self.weight)).then(self.turn.cmp(&other.turn))
    }
}

impl PartialOrd for Fill {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Fill {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Fill {}

fn per_weight(load: u64, other_weight: u64) -> u128 {
    u128::from(load) * u128::from(other_weight)
}

// === impl Table ===

impl Table {
    fn new(members: &[&Candidate]) -> Self {
        let seat = |(turn, member): (usize, &&Candidate)| Seat {
            fill: Fill { load: 0, weight: u64::from(member.weight.max(1)), turn },
            shards: BTreeSet::new(),
        };
        let seats: Vec<Seat> = members.iter().enumerate().map(seat).collect();
        let order = seats.iter().map(|seat| seat.fill).collect();
        Self { seats, order }
    }

    fn give(&mut self, seat: usize, weight: u32, fresh: bool, shard: u16) {
        self.change(seat, |seat| {
            seat.shards.insert((weight, fresh, shard));
            seat.fill.load += u64::from(weight);
        });
    }

    fn take(&mut self, seat: usize, entry: (u32, bool, u16)) {
        self.change(seat, |seat| {
            seat.shards.remove(&entry);
            seat.fill.load -= u64::from(entry.0);
        });
    }

    fn change(&mut self, seat: usize, act: impl FnOnce(&mut Seat)) {
        self.order.remove(&self.seats[seat].fill);
        act(&mut self.seats[seat]);
        self.order.insert(self.seats[seat].fill);
    }

    /// Moves shards from the fullest to the emptiest. Every move makes the fullest pair less full, so this ends by
    /// itself; the limit only says that a mistake here must not become an endless loop in a leader.
    fn level(&mut self, shards: usize) {
        for _ in 0..2 * shards {
            let (Some(&least), Some(&most)) = (self.order.first(), self.order.last()) else { return };
            let Some(entry) = self.best_to_move(most, least) else { return };
            self.take(most.turn, entry);
            self.give(least.turn, entry.0, entry.1, entry.2);
        }
    }

    /// The heaviest shard that fits the gap; else the lightest, if moving it still makes the larger of the two smaller.
    fn best_to_move(&self, most: Fill, least: Fill) -> Option<(u32, bool, u16)> {
        let gap = per_weight(most.load, least.weight).saturating_sub(per_weight(least.load, most.weight));
        let fits = u32::try_from(gap / u128::from(most.weight + least.weight)).unwrap_or(u32::MAX);
        let shards = &self.seats[most.turn].shards;
        let fitting = shards.range(..=(fits, true, u16::MAX)).next_back();
        let entry = *fitting.or_else(|| shards.first())?;
        let after = per_weight(least.load + u64::from(entry.0), most.weight);
        (after < per_weight(most.load, least.weight)).then_some(entry)
    }

    fn into_plan(
        self,
        members: &[&Candidate],
        shards: usize,
        previous: Option<&Plan>,
        by: &MemberId,
    ) -> Plan {
        let mut named: Vec<(&Candidate, Seat)> =
            members.iter().copied().zip(self.seats).filter(|(_, seat)| !seat.shards.is_empty()).collect();
        named.sort_by(|(a, _), (b, _)| a.id.cmp(&b.id));
        let mut owners = vec![None; shards];
        for (place, (_, seat)) in (0_u16..).zip(&named) {
            for &(_, _, shard) in &seat.shards {
                owners[usize::from(shard)] = Some(place);
            }
        }
        let named: Vec<PlannedMember> = named
            .into_iter()
            .map(|(member, _)| PlannedMember { id: member.id.clone(), name: member.name.clone() })
            .collect();
        match previous {
            Some(plan) if plan.members() == named && plan.places() == owners => plan.clone(),
            _ => Plan::new(previous.map_or(0, |plan| plan.version) + 1, by.clone(), named, owners),
        }
    }
}

#[cfg(test)]
mod tests;
