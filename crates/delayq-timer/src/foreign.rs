//! Other timers' shards: when to look whether anybody pumps them. Pure, by Redis's clock.
//!
//! A look costs a call, so most are spared: the last one said when the shard is due next, and before that time and ten
//! seconds there is nothing to rescue. What is put nearer meanwhile is heard where few timers share the shards. Where
//! many do, each looks more seldom and at a moment of its own, so that a shard is looked at as often as by few.

use delayq_core::{ShardId, UnixMillis};
use std::collections::BTreeMap;
use std::time::Duration;

/// How long something must be overdue for being anybody's.
const OVERDUE: Duration = Duration::from_secs(10);
/// How often at most a shard is looked at, whatever it is due for.
const SOON: Duration = Duration::from_secs(5);
/// How often at least, where what is put is heard; and where it is not.
const HEARD: Duration = Duration::from_secs(60);
const UNHEARD: Duration = Duration::from_secs(15);
/// With so many other timers at most, each hears what is put into the others' shards.
const FEW: usize = 2;

/// The shards that other timers own.
#[derive(Clone, Debug, Default)]
pub(crate) struct Foreign {
    shards: BTreeMap<ShardId, Watched>,
    others: usize,
}

#[derive(Clone, Copy, Debug)]
struct Watched {
    look: UnixMillis,
    out: bool,
}

// === impl Foreign ===

impl Foreign {
    /// These shards belong to so many other timers.
    pub(crate) fn set(&mut self, shards: impl Iterator<Item = ShardId>, others: usize, now: UnixMillis) {
        self.others = others.max(1);
        let before = std::mem::take(&mut self.shards);
        let fresh = || Watched { look: now + SOON + self.stretch(), out: false };
        self.shards = shards.map(|s| (s, before.get(&s).copied().unwrap_or_else(fresh))).collect();
    }

    /// Those whose wake-ups should be heard.
    pub(crate) fn to_hear(&self) -> impl Iterator<Item = ShardId> {
        let few = self.others <= FEW;
        self.shards.keys().copied().filter(move |_| few)
    }

    /// A wake-up: something is due at `due`.
    pub(crate) fn hear(&mut self, shard: ShardId, due: UnixMillis) {
        let look = due + OVERDUE + self.stretch();
        if let Some(watched) = self.shards.get_mut(&shard) {
            watched.look = watched.look.min(look);
        }
    }

    /// The shards to look at now; with `all`, whatever their time. Each comes back by `answered`.
    pub(crate) fn take(&mut self, now: UnixMillis, all: bool) -> Vec<ShardId> {
        let due = |watched: &Watched| !watched.out && (all || watched.look <= now);
        let taken: Vec<ShardId> = self.shards.iter().filter(|(_, w)| due(w)).map(|(&s, _)| s).collect();
        let out = Watched { look: UnixMillis::MAX, out: true };
        self.shards.extend(taken.iter().map(|&shard| (shard, out)));
        taken
    }

    /// A look found this to be due next.
    pub(crate) fn answered(&mut self, shard: ShardId, next_due: Option<UnixMillis>, now: UnixMillis) {
        let others = u32::try_from(self.others).unwrap_or(u32::MAX);
        let longest = now + if self.others <= FEW { HEARD } else { UNHEARD } * others;
        let soonest = now + SOON;
        let look = next_due.map_or(longest, |due| (due + OVERDUE).clamp(soonest, longest));
        let stretch = self.stretch();
        if let Some(watched) = self.shards.get_mut(&shard) {
            // What was heard while the look was out may not be in its answer yet.
            watched.look = watched.look.min(look + stretch);
            watched.out = false;
        }
    }

    /// A moment of its own: the others look at theirs.
    fn stretch(&self) -> Duration {
        let most = SOON * u32::try_from(self.others.saturating_sub(1)).unwrap_or(u32::MAX);
        Duration::from_millis(fastrand::u64(0..=u64::try_from(most.as_millis()).unwrap_or(u64::MAX)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: ShardId = ShardId::new(1);
    const B: ShardId = ShardId::new(2);

    fn s(seconds: u64) -> UnixMillis {
        UnixMillis::new(1_000_000_000 + seconds * 1000)
    }

    fn two() -> Foreign {
        let mut foreign = Foreign::default();
        foreign.set([A, B].into_iter(), 1, s(0));
        assert_eq!(foreign.take(s(4), false), []);
        assert_eq!(foreign.take(s(5), false), [A, B]);
        foreign
    }

    #[test]
    fn a_shard_is_looked_at_when_what_it_was_due_for_is_ten_seconds_over() {
        for (next_due, look) in
            [(None, 65), (Some(s(3_600)), 65), (Some(s(20)), 30), (Some(s(6)), 16), (Some(s(0)), 10)]
        {
            let mut foreign = two();
            foreign.answered(A, next_due, s(5));
            assert_eq!(foreign.take(s(look - 1), false), [], "due {next_due:?}");
            assert_eq!(foreign.take(s(look), false), [A], "due {next_due:?}");
        }
    }

    #[test]
    fn a_nearer_due_time_that_is_heard_brings_the_look_forward_also_while_one_is_out() {
        let mut foreign = two();
        foreign.answered(A, None, s(5));
        foreign.hear(A, s(8));
        foreign.hear(B, s(9));
        foreign.answered(B, None, s(5));
        assert_eq!(foreign.take(s(18), false), [A]);
        assert_eq!(foreign.take(s(19), false), [B]);
    }

    #[test]
    fn without_etcd_all_are_looked_at_each_time_but_none_twice_at_once() {
        let mut foreign = two();
        assert_eq!(foreign.take(s(6), true), [], "both are out");
        foreign.answered(A, None, s(6));
        assert_eq!(foreign.take(s(6), true), [A]);
    }

    #[test]
    fn many_timers_look_at_moments_of_their_own_and_hear_only_their_own_shards() {
        let mut foreign = Foreign::default();
        foreign.set([A].into_iter(), 40, s(0));
        assert_eq!(foreign.to_hear().count(), 0);
        let looks: Vec<UnixMillis> = (0..200)
            .map(|_| {
                foreign.take(s(0), true);
                foreign.answered(A, Some(s(10)), s(0));
                foreign.shards[&A].look
            })
            .collect();
        assert!(looks.iter().all(|&look| look >= s(20) && look <= s(20 + 39 * 5)));
        assert!(looks.iter().any(|&look| look < s(60)) && looks.iter().any(|&look| look > s(150)));
        foreign.set([A, B].into_iter(), 2, s(0));
        assert_eq!(foreign.to_hear().collect::<Vec<_>>(), [A, B]);
    }
}
