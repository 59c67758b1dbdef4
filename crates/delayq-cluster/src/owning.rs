//! Tracks each shard on the way from the plan to the pump of this member, and back. Pure.
//!
//! ```text
//! planned ─► Wanted ─claim─► Claiming ─epoch─► Mine ─fenced─► Doubted ─ask─► Asking ─still mine─► Wanted
//!              ▲───────────────┘ failed, locked    │               ▲──────────────┘ no answer
//!                       planned for another │      ▼ planned for another
//!                                Overtaken ◄┘   Parting ─fenced─► gone
//!                  gone ◄─failed─┘ └──epoch────────▲
//!                                       nobody pumps it: adopted
//! ```
//!
//! Only a newer epoch ends the work on a shard: neither a plan nor a lost lease does. So a hand-over has no gap, and a
//! successor that cannot reach the shard's Redis takes nothing away. A shard that the plan gives to nobody is dropped
//! at once.
//!
//! A fenced member claims again only after etcd confirmed that the plan still names this member: two members never take
//! turns fencing each other. A member with an outdated plan fences the owner once; the owner asks etcd, and claims
//! again.
//!
//! A shard that nobody pumps is adopted by any member whose claim Redis grants, whatever etcd says: Redis grants such a
//! claim only while no owner pumps. The member pumps the shard until the member named in the plan fences this member.

use crate::ownership::OwnershipView;
use delayq::protocol::ShardId;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// How soon a shard on its way to another member is polled for its fence; each further poll waits twice as long.
const FIRST_PARTING_POLL: Duration = Duration::from_millis(20);
/// Maximum time between two such polls.
const LONGEST_PARTING_POLL: Duration = Duration::from_secs(2);

/// The shards that a member pumps, is about to claim, or pumps until their new owners fence this member.
#[derive(Debug, Default)]
pub struct Owning {
    shards: BTreeMap<ShardId, Phase>,
    /// The times at which phases of `shards` ask for a claim, a question or a poll.
    due: BTreeSet<(Instant, ShardId)>,
    given: usize,
    mine: usize,
    /// The owner of the lock that keeps this member from a shard.
    locked_out: BTreeMap<ShardId, String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Wanted { from: Instant },
    Claiming,
    Mine,
    Doubted { from: Instant },
    Asking,
    Overtaken,
    Parting { poll: Instant, pause: Duration },
}

/// The changes that a new view brings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Turn {
    /// Shards that are to be claimed.
    pub gained: Vec<ShardId>,
    /// Shards that are not to be pumped any more.
    pub gone: Vec<ShardId>,
}

// === impl Owning ===

impl Owning {
    /// Follows a new view of the plan.
    pub fn follow(&mut self, view: &OwnershipView, now: Instant) -> Turn {
        let mut turn = Turn::default();
        for &shard in &view.planned {
            match self.shards.get(&shard) {
                None => {
                    self.put(shard, Some(Phase::Wanted { from: now }));
                    turn.gained.push(shard);
                }
                Some(Phase::Parting { .. }) => self.put(shard, Some(Phase::Mine)),
                Some(Phase::Overtaken) => self.put(shard, Some(Phase::Claiming)),
                Some(_) => {}
            }
        }
        let others: Vec<ShardId> =
            self.shards.keys().filter(|shard| !view.planned.contains(shard)).copied().collect();
        for shard in others {
            if !self.part(shard, view.nobodys.contains(&shard), now) {
                turn.gone.push(shard);
            }
        }
        turn
    }

    /// The plan gives the shard to another member or to nobody. True if this member keeps pumping the shard.
    fn part(&mut self, shard: ShardId, nobodys: bool, now: Instant) -> bool {
        let next = match self.shards.get(&shard) {
            Some(Phase::Mine) if !nobodys => Some(Phase::parting(now)),
            Some(&same @ Phase::Parting { .. }) if !nobodys => Some(same),
            Some(Phase::Claiming | Phase::Overtaken) if !nobodys => Some(Phase::Overtaken),
            _ => None,
        };
        self.put(shard, next);
        next.is_some()
    }

    /// Drops every shard.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// Returns true if no shard is pumped or about to be pumped.
    pub fn is_empty(&self) -> bool {
        self.shards.is_empty()
    }

    /// The shards that are pumped or about to be pumped.
    pub fn shards(&self) -> impl Iterator<Item = ShardId> {
        self.shards.keys().copied()
    }

    /// Returns true if this member has no part in a shard, or was fenced: another member pumps the shard, or no member
    /// does.
    pub fn is_others(&self, shard: ShardId) -> bool {
        matches!(self.shards.get(&shard), None | Some(Phase::Doubted { .. } | Phase::Asking))
    }

    /// Returns true if a shard is planned for this member.
    pub fn is_given(&self, shard: ShardId) -> bool {
        self.shards.get(&shard).is_some_and(|phase| phase.is_given())
    }

    /// Returns true if any shard is planned for this member and not pumped yet.
    pub const fn is_behind(&self) -> bool {
        self.mine < self.given
    }

    /// Takes the shards to claim now. Answer each by `claimed`, `locked_out` or `retry`.
    pub fn claims(&mut self, now: Instant) -> Vec<ShardId> {
        self.take(now, |phase| match phase {
            Phase::Wanted { .. } => Some(Phase::Claiming),
            _ => None,
        })
    }

    /// Takes the shards to ask etcd about now. Answer each by `still_mine` or `doubt`.
    pub fn questions(&mut self, now: Instant) -> Vec<ShardId> {
        self.take(now, |phase| match phase {
            Phase::Doubted { .. } => Some(Phase::Asking),
            _ => None,
        })
    }

    /// Takes the shards on their way to other members that are due for a poll, which finds the fence of a new owner.
    pub fn parting_polls(&mut self, now: Instant) -> Vec<ShardId> {
        self.take(now, |phase| match phase {
            Phase::Parting { pause, .. } => {
                let pause = (pause * 2).min(LONGEST_PARTING_POLL);
                Some(Phase::Parting { poll: now + pause, pause })
            }
            _ => None,
        })
    }

    /// The time of the next claim, question or poll.
    pub fn next(&self) -> Option<Instant> {
        self.due.first().map(|&(from, _)| from)
    }

    /// Takes a granted claim. Returns true if the shard is to be pumped under its new epoch.
    pub fn claimed(&mut self, shard: ShardId, now: Instant) -> bool {
        self.locked_out.remove(&shard);
        let Some(phase) = self.shards.get(&shard) else { return false };
        match phase {
            // Also for a repeated claim: the later epoch counts.
            phase if phase.is_given() => self.put(shard, Some(Phase::Mine)),
            Phase::Overtaken => self.put(shard, Some(Phase::parting(now))),
            _ => {}
        }
        true
    }

    /// Takes a granted claim of a shard that nobody pumped. The shard is pumped under its epoch.
    pub fn adopted(&mut self, shard: ShardId, now: Instant) {
        let phase = match self.shards.get(&shard) {
            Some(phase) if phase.is_given() => Phase::Mine,
            _ => Phase::parting(now),
        };
        self.put(shard, Some(phase));
    }

    /// Takes a claim that another member's lock refused: the next claim is due at `from`.
    pub fn locked_out(&mut self, shard: ShardId, owner: String, from: Instant) {
        if self.retry(shard, from) {
            self.locked_out.insert(shard, owner);
        }
    }

    /// The owner of a lock that keeps this member from a shard.
    pub fn locked_out_by(&self) -> Option<&str> {
        self.locked_out.values().next().map(String::as_str)
    }

    /// Takes the answer that Redis does not have the shard, nor any lock on it: see [`Owning::retry`].
    pub fn missing(&mut self, shard: ShardId, from: Instant) -> bool {
        self.locked_out.remove(&shard);
        self.retry(shard, from)
    }

    /// Takes a failed claim: the next claim is due at `from`. Returns false if the shard is planned for another member:
    /// the shard is gone then.
    pub fn retry(&mut self, shard: ShardId, from: Instant) -> bool {
        let given = self.is_given(shard);
        self.put(shard, given.then_some(Phase::Wanted { from }));
        given
    }

    /// Takes the answer that a newer epoch fenced a shard. Returns true if the shard is planned for this member, so
    /// that etcd must be asked; otherwise the shard is gone.
    pub fn fenced(&mut self, shard: ShardId, now: Instant) -> bool {
        match self.shards.get(&shard) {
            Some(Phase::Mine) => self.put(shard, Some(Phase::Doubted { from: now })),
            Some(Phase::Parting { .. }) => self.put(shard, None),
            // A claim or a question is in flight.
            _ => {}
        }
        self.shards.contains_key(&shard)
    }

    /// Takes etcd's answer that the plan names this member: the shard is claimed again.
    pub fn still_mine(&mut self, shard: ShardId, now: Instant) {
        if self.shards.get(&shard) == Some(&Phase::Asking) {
            self.put(shard, Some(Phase::Wanted { from: now }));
        }
    }

    /// Takes a failed or negative answer to a question: the next question is due at `from`, unless a newer plan comes
    /// first.
    pub fn doubt(&mut self, shard: ShardId, from: Instant) {
        if self.shards.get(&shard) == Some(&Phase::Asking) {
            self.put(shard, Some(Phase::Doubted { from }));
        }
    }

    fn put(&mut self, shard: ShardId, phase: Option<Phase>) {
        let before = match phase {
            Some(phase) => self.shards.insert(shard, phase),
            None => self.shards.remove(&shard),
        };
        if let Some(before) = before {
            if let Some(from) = before.due() {
                self.due.remove(&(from, shard));
            }
            self.given -= usize::from(before.is_given());
            self.mine -= usize::from(before == Phase::Mine);
        }
        match phase {
            Some(phase) => {
                if let Some(from) = phase.due() {
                    self.due.insert((from, shard));
                }
                self.given += usize::from(phase.is_given());
                self.mine += usize::from(phase == Phase::Mine);
            }
            None => _ = self.locked_out.remove(&shard),
        }
    }

    fn take(&mut self, now: Instant, next: impl Fn(Phase) -> Option<Phase>) -> Vec<ShardId> {
        let due = self.due.iter().take_while(|(from, _)| *from <= now);
        let taken: Vec<(ShardId, Phase)> =
            due.filter_map(|&(_, shard)| Some((shard, next(self.shards[&shard])?))).collect();
        taken.iter().for_each(|&(shard, phase)| self.put(shard, Some(phase)));
        taken.into_iter().map(|(shard, _)| shard).collect()
    }
}

// === impl Phase ===

impl Phase {
    /// The shard is pumped until another member fences this one.
    fn parting(now: Instant) -> Self {
        Self::Parting { poll: now + FIRST_PARTING_POLL, pause: FIRST_PARTING_POLL }
    }

    const fn is_given(self) -> bool {
        !matches!(self, Self::Overtaken | Self::Parting { .. })
    }

    const fn due(self) -> Option<Instant> {
        match self {
            Self::Wanted { from } | Self::Doubted { from } => Some(from),
            Self::Parting { poll, .. } => Some(poll),
            Self::Claiming | Self::Mine | Self::Asking | Self::Overtaken => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: ShardId = ShardId::new(1);
    const B: ShardId = ShardId::new(2);

    fn planned(shards: &[ShardId]) -> OwnershipView {
        OwnershipView { planned: shards.iter().copied().collect(), ..OwnershipView::default() }
    }

    /// A member that pumps A.
    fn pumping() -> (Owning, Instant) {
        let (mut owning, now) = (Owning::default(), Instant::now());
        assert_eq!(owning.follow(&planned(&[A]), now).gained, [A]);
        assert_eq!(owning.claims(now), [A]);
        assert!(owning.claimed(A, now) && !owning.is_behind());
        (owning, now)
    }

    #[test]
    fn a_shard_is_claimed_once_at_a_time() {
        let (mut owning, now) = pumping();
        let later = now + Duration::from_secs(1);
        assert_eq!(owning.follow(&planned(&[A, B]), later).gained, [B]);
        assert!(owning.is_behind());
        assert_eq!(owning.next(), Some(later));
        assert_eq!(owning.claims(now), []);
        assert_eq!(owning.claims(later), [B]);
        assert_eq!(owning.claims(later), []);
        assert_eq!(owning.next(), None);
    }

    #[test]
    fn a_shard_planned_for_another_is_pumped_until_it_is_fenced() {
        let (mut owning, now) = pumping();
        assert_eq!(owning.follow(&planned(&[]), now), Turn::default());
        assert!(!owning.is_given(A) && !owning.is_empty());
        assert_eq!(owning.parting_polls(now), []);
        let polled = owning.next().unwrap();
        assert_eq!(owning.parting_polls(polled), [A]);
        assert_eq!(owning.next(), Some(polled + 2 * FIRST_PARTING_POLL), "the next poll waits longer");
        assert!(!owning.fenced(A, now));
        assert!(owning.is_empty());
    }

    #[test]
    fn a_shard_planned_for_nobody_is_dropped_at_once() {
        let (mut owning, now) = pumping();
        let nobodys = OwnershipView { nobodys: [A].into(), ..OwnershipView::default() };
        assert_eq!(owning.follow(&nobodys, now).gone, [A]);
        assert!(owning.is_empty());
    }

    #[test]
    fn a_shard_that_comes_back_before_it_was_fenced_is_not_claimed_again() {
        let (mut owning, now) = pumping();
        owning.follow(&planned(&[]), now);
        assert_eq!(owning.follow(&planned(&[A]), now), Turn::default());
        assert!(owning.is_given(A) && !owning.is_behind() && owning.claims(now).is_empty());
    }

    #[test]
    fn a_fenced_shard_is_claimed_again_only_when_etcd_says_that_it_is_still_planned() {
        let (mut owning, now) = pumping();
        let later = now + Duration::from_secs(1);
        assert!(owning.fenced(A, now));
        assert_eq!(owning.claims(now), []);
        assert_eq!(owning.questions(now), [A]);
        owning.doubt(A, later);
        assert_eq!((owning.questions(now), owning.claims(later)), (vec![], vec![]));
        assert_eq!(owning.questions(later), [A]);
        owning.still_mine(A, later);
        assert_eq!(owning.claims(later), [A]);
        assert!(!owning.fenced(B, now), "a shard that is not held is not asked for");
    }

    #[test]
    fn an_adopted_shard_is_pumped_until_its_planned_owner_fences_it_or_the_plan_names_this_member() {
        let (mut owning, now) = (Owning::default(), Instant::now());
        assert!(owning.is_others(A));
        owning.adopted(A, now);
        assert!(!owning.is_others(A) && !owning.is_given(A));
        assert_eq!(owning.follow(&planned(&[]), now), Turn::default(), "the plan names another");
        assert!(!owning.fenced(A, now));
        assert!(owning.is_empty());
        owning.adopted(A, now);
        assert_eq!(owning.follow(&planned(&[A]), now), Turn::default());
        assert!(owning.is_given(A) && !owning.is_behind());
    }

    #[test]
    fn a_fenced_member_adopts_its_shard_back_while_etcd_is_silent() {
        let (mut owning, now) = pumping();
        owning.fenced(A, now);
        assert!(owning.is_others(A));
        assert_eq!(owning.questions(now), [A]);
        owning.adopted(A, now);
        owning.doubt(A, now);
        assert!(owning.is_given(A) && !owning.is_behind() && !owning.is_others(A), "a late answer of etcd");
    }

    #[test]
    fn a_lock_keeps_a_shard_out_until_a_claim_is_granted_or_redis_has_lost_the_shard() {
        let (mut owning, now) = pumping();
        owning.follow(&planned(&[A, B]), now);
        owning.claims(now);
        owning.locked_out(B, "other".to_owned(), now);
        owning.claims(now);
        assert!(owning.retry(B, now));
        assert_eq!(owning.locked_out_by(), Some("other"), "a failed claim says nothing of the lock");
        assert!(owning.missing(B, now));
        assert_eq!(owning.locked_out_by(), None);
    }

    #[test]
    fn a_claim_that_a_plan_overtook_is_pumped_until_it_is_fenced() {
        let (mut owning, now) = (Owning::default(), Instant::now());
        owning.follow(&planned(&[A, B]), now);
        owning.claims(now);
        assert_eq!(owning.follow(&planned(&[]), now), Turn::default());
        assert!(owning.claimed(A, now), "Redis knows this member as the owner");
        assert!(!owning.retry(B, now), "this claim failed");
        assert_eq!(owning.shards().collect::<Vec<_>>(), [A]);
        assert!(!owning.fenced(A, now));
    }
}
