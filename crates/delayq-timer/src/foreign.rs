//! Decides when to check other timers' shards for a missing pump. Pure, by the local clock: the shards are on several
//! Redises, each with its own clock.
//!
//! A check costs a call, so most checks are skipped: the last check returned the shard's next due time, and nothing is
//! to be rescued until ten seconds after that. While few timers share the shards, each timer is notified of nearer
//! messages. While many timers share the shards, each timer checks less often, at random moments, so that a shard is
//! checked as often as by few timers.
//!
//! A shard in which a check moved a message may be an orphan: the next check claims the shard.
//!
//! While etcd is silent or takes no writes, no plan replaces a timer that ends, and each poll checks for messages ten
//! seconds overdue. A small fleet checks with every timer. In a large fleet each timer checks at random, so that the
//! fleet checks a shard [`CHECKERS`] times a poll interval; the chance that no timer checks is one in 3,000.

use delayq::UnixMillis;
use delayq::protocol::ShardId;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How long a message must be overdue before any timer may move the message.
const OVERDUE: Duration = Duration::from_secs(10);
/// Minimum time between two checks of a shard, whatever its due time.
const SOON: Duration = Duration::from_secs(5);
/// Maximum time between two checks by the leader, whose metric of overdue messages covers all shards.
const LED: Duration = Duration::from_secs(10);
/// Maximum time between two checks by other timers: with notifications of puts, and without.
const FOLLOWED: Duration = Duration::from_secs(60);
const UNFOLLOWED: Duration = Duration::from_secs(15);
/// Up to this many other timers, each timer is notified of puts into the others' shards.
const FEW: usize = 2;
/// Number of other timers that check a shard in one poll interval while no plan replaces a timer that ends.
const CHECKERS: usize = 8;
/// A message overdue by less is on the way: the owner pumps the shard.
const ON_ITS_WAY: Duration = Duration::from_secs(1);

#[derive(Clone, Debug, Default)]
pub(crate) struct Foreign {
    shards: BTreeMap<ShardId, Watched>,
    others: usize,
    leads: bool,
}

#[derive(Clone, Copy, Debug)]
struct Watched {
    /// `None` while a check is in flight and no later check is requested.
    check: Option<Instant>,
    out: bool,
    /// Due time of a message that was overdue at the last check, by its Redis's clock.
    overdue: Option<UnixMillis>,
    /// The last check moved a message: the next check is a claim, which Redis refuses while the owner pumps.
    orphan: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    pub(crate) next_due: Option<UnixMillis>,
    /// Due time of the first due message, if any.
    pub(crate) overdue: Option<UnixMillis>,
    pub(crate) ran: UnixMillis,
    pub(crate) moved: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Checks {
    pub(crate) rescues: Vec<ShardId>,
    pub(crate) orphans: Vec<ShardId>,
}

// === impl Foreign ===

impl Foreign {
    /// `others` is the number of other timers.
    pub(crate) fn set(&mut self, shards: impl Iterator<Item = ShardId>, others: usize, now: Instant) {
        self.others = others.max(1);
        let before = std::mem::take(&mut self.shards);
        let fresh =
            || Watched { check: Some(now + SOON + self.stretch()), out: false, overdue: None, orphan: false };
        self.shards = shards.map(|s| (s, before.get(&s).copied().unwrap_or_else(fresh))).collect();
    }

    /// Sets the number of other timers.
    pub(crate) fn others(&mut self, others: usize) {
        self.others = others.max(1);
    }

    /// The leader checks every shard often.
    pub(crate) fn lead(&mut self, leads: bool, now: Instant) {
        if leads && !self.leads {
            for watched in self.shards.values_mut() {
                watched.check_by(now + LED);
                // The last check may be long ago.
                watched.overdue = None;
            }
        }
        self.leads = leads;
    }

    pub(crate) fn to_listen(&self) -> impl Iterator<Item = ShardId> {
        let few = self.others <= FEW;
        self.shards.keys().copied().filter(move |_| few)
    }

    /// A message is due at `due`.
    pub(crate) fn wake(&mut self, shard: ShardId, due: Instant) {
        let check = due + OVERDUE + self.stretch();
        if let Some(watched) = self.shards.get_mut(&shard).filter(|watched| !watched.orphan) {
            watched.check_by(check);
        }
    }

    /// Every shard followed by wake-ups is checked soon.
    pub(crate) fn missed_some(&mut self, now: Instant) {
        if self.others <= FEW {
            self.shards.values_mut().for_each(|watched| watched.check_by(now + SOON));
        }
    }

    /// While the fleet is `unled`, also before their time. Answer each by `answered` or `failed`.
    pub(crate) fn take(&mut self, now: Instant, unled: bool) -> Checks {
        let others = self.others;
        let mine = || others <= CHECKERS || fastrand::usize(..others) < CHECKERS;
        let mut checks = Checks::default();
        for (&shard, watched) in self.shards.iter_mut().filter(|(_, watched)| !watched.out) {
            // An orphan's owner has time until the check is due.
            if watched.check.is_some_and(|check| check <= now) || unled && !watched.orphan && mine() {
                (watched.check, watched.out) = (None, true);
                let orphan = std::mem::take(&mut watched.orphan);
                if orphan { &mut checks.orphans } else { &mut checks.rescues }.push(shard);
            }
        }
        checks
    }

    pub(crate) fn answered(&mut self, shard: ShardId, seen: Seen, now: Instant) {
        let others = u32::try_from(self.others).unwrap_or(u32::MAX);
        let longest = match self.others {
            _ if self.leads => LED,
            0..=FEW => FOLLOWED * others,
            _ => UNFOLLOWED * others,
        };
        let overdue = seen.overdue.filter(|&due| due + ON_ITS_WAY <= seen.ran);
        let rest = match seen.next_due {
            _ if seen.moved || overdue.is_some() => SOON,
            Some(due) => (due + OVERDUE).since(seen.ran).clamp(SOON, longest),
            None => longest,
        };
        let check = now + rest + if seen.moved { Duration::ZERO } else { self.stretch() };
        if let Some(watched) = self.shards.get_mut(&shard) {
            if seen.moved {
                watched.check = Some(check);
            } else {
                // A wake-up during the check may be missing from the answer.
                watched.check_by(check);
            }
            (watched.out, watched.overdue, watched.orphan) = (false, overdue, seen.moved);
        }
    }

    /// The owner pumps.
    pub(crate) fn refused(&mut self, shard: ShardId, now: Instant) {
        if let Some(watched) = self.shards.get_mut(&shard) {
            watched.overdue = None;
        }
        self.failed(shard, now);
    }

    pub(crate) fn failed(&mut self, shard: ShardId, now: Instant) {
        if let Some(watched) = self.shards.get_mut(&shard) {
            (watched.check, watched.out) = (Some(now + SOON), false);
        }
    }

    /// The shards with overdue messages that nobody pumps, and the due times: only for the leader, or for every timer
    /// while the fleet is `unled`. Any other timer checks rarely, and would report a message long after its pump.
    pub(crate) fn overdue(&self, unled: bool) -> impl Iterator<Item = (ShardId, UnixMillis)> {
        let shards = self.shards.iter().filter(move |_| self.leads || unled);
        shards.filter_map(|(&shard, watched)| Some((shard, watched.overdue?)))
    }

    /// A random delay that spreads the timers' checks; zero for the leader, which checks for all.
    fn stretch(&self) -> Duration {
        if self.leads {
            return Duration::ZERO;
        }
        let most = SOON * u32::try_from(self.others.saturating_sub(1)).unwrap_or(u32::MAX);
        Duration::from_millis(fastrand::u64(0..=u64::try_from(most.as_millis()).unwrap_or(u64::MAX)))
    }
}

// === impl Watched ===

impl Watched {
    /// Keeps an earlier check.
    fn check_by(&mut self, at: Instant) {
        self.check = Some(self.check.map_or(at, |check| check.min(at)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::LazyLock;

    const A: ShardId = ShardId::new(1);
    const B: ShardId = ShardId::new(2);

    static START: LazyLock<Instant> = LazyLock::new(Instant::now);

    fn s(seconds: u64) -> Instant {
        *START + Duration::from_secs(seconds)
    }

    fn redis(seconds: u64) -> UnixMillis {
        UnixMillis::new(1_000_000_000 + seconds * 1000)
    }

    fn found(next_due: Option<u64>, overdue: Option<u64>, ran: u64) -> Seen {
        Seen { next_due: next_due.map(redis), overdue: overdue.map(redis), ran: redis(ran), moved: false }
    }

    /// Asserts that no shard is an orphan.
    fn take(foreign: &mut Foreign, now: Instant, unled: bool) -> Vec<ShardId> {
        let checks = foreign.take(now, unled);
        assert_eq!(checks.orphans, []);
        checks.rescues
    }

    fn answered(foreign: &mut Foreign, shard: ShardId, next_due: Option<u64>, second: u64) {
        foreign.answered(shard, found(next_due, None, second), s(second));
    }

    fn two() -> Foreign {
        let mut foreign = Foreign::default();
        foreign.set([A, B].into_iter(), 1, s(0));
        assert_eq!(take(&mut foreign, s(4), false), []);
        assert_eq!(take(&mut foreign, s(5), false), [A, B]);
        foreign
    }

    #[test]
    fn a_shard_is_checked_when_what_it_was_due_for_is_ten_seconds_overdue() {
        for (next_due, check) in [(None, 65), (Some(3_600), 65), (Some(20), 30), (Some(6), 16), (Some(0), 10)]
        {
            let mut foreign = two();
            answered(&mut foreign, A, next_due, 5);
            assert_eq!(take(&mut foreign, s(check - 1), false), [], "due {next_due:?}");
            assert_eq!(take(&mut foreign, s(check), false), [A], "due {next_due:?}");
        }
    }

    #[test]
    fn a_shard_is_checked_in_time_whatever_the_clock_of_its_redis_reads() {
        for ahead in [0, 3_600, 86_400] {
            let mut foreign = two();
            foreign.answered(A, found(Some(ahead + 20), None, ahead + 5), s(5));
            assert_eq!(take(&mut foreign, s(29), false), [], "{ahead} s ahead");
            assert_eq!(take(&mut foreign, s(30), false), [A], "{ahead} s ahead");
        }
    }

    #[test]
    fn a_nearer_due_time_brings_the_check_forward_also_while_one_is_out() {
        let mut foreign = two();
        answered(&mut foreign, A, None, 5);
        foreign.wake(A, s(8));
        foreign.wake(B, s(9));
        answered(&mut foreign, B, None, 5);
        assert_eq!(take(&mut foreign, s(18), false), [A]);
        assert_eq!(take(&mut foreign, s(19), false), [B]);
    }

    #[test]
    fn without_etcd_all_are_checked_each_time_but_none_twice_at_once() {
        let mut foreign = two();
        assert_eq!(take(&mut foreign, s(6), true), [], "both are out");
        answered(&mut foreign, A, None, 6);
        assert_eq!(take(&mut foreign, s(6), true), [A]);
    }

    #[test]
    fn a_hundred_timers_without_etcd_check_each_shard_a_few_times_together() {
        let mut foreign = Foreign::default();
        foreign.set((0..1_000).map(ShardId::new), 100, s(0));
        let mut checks = 0;
        for _ in 0..100 {
            let taken = take(&mut foreign, s(0), true);
            checks += taken.len();
            taken.into_iter().for_each(|shard| answered(&mut foreign, shard, None, 0));
        }
        assert!((7_000..9_000).contains(&checks), "{checks} checks of 100 timers at 1,000 shards");
    }

    #[test]
    fn a_shard_in_which_a_check_moved_something_is_claimed_five_seconds_later_and_watched_again_if_refused() {
        let mut foreign = Foreign::default();
        foreign.set([A, B].into_iter(), 40, s(0));
        foreign.take(s(1_000_000), false);
        answered(&mut foreign, B, None, 11);
        foreign.answered(A, Seen { moved: true, ..found(Some(12), Some(1), 11) }, s(11));
        foreign.wake(A, s(2));
        assert_eq!(foreign.take(s(15), true).orphans, [], "its owner has five seconds");
        assert_eq!(foreign.take(s(16), true).orphans, [A]);
        foreign.refused(A, s(16));
        assert_eq!(take(&mut foreign, s(21), false), [A], "its owner pumps");
    }

    fn overdue(foreign: &Foreign, unled: bool) -> Vec<(ShardId, UnixMillis)> {
        foreign.overdue(unled).collect()
    }

    #[test]
    fn a_shard_that_nobody_pumps_counts_as_overdue_until_a_check_finds_it_well() {
        let mut foreign = two();
        foreign.lead(true, s(5));
        foreign.answered(A, found(Some(4), Some(4), 5), s(5));
        foreign.answered(B, found(Some(60), Some(5), 5), s(5));
        let expected = [(A, redis(4))];
        assert_eq!(overdue(&foreign, false), expected, "what is overdue by less than a second is on its way");
        assert_eq!(take(&mut foreign, s(10), false), [A], "it is checked again soon");
        foreign.failed(A, s(10));
        assert_eq!(overdue(&foreign, false), expected, "nothing new is known");
        assert_eq!(take(&mut foreign, s(15), false), [A, B]);
        answered(&mut foreign, A, None, 15);
        assert_eq!(overdue(&foreign, false), []);
    }

    #[test]
    fn what_one_of_many_timers_saw_overdue_does_not_grow_while_the_leader_sees_it_pumped() {
        let mut foreign = Foreign::default();
        foreign.set([A].into_iter(), 20, s(0));
        foreign.take(s(1_000_000), false);
        foreign.answered(A, found(Some(4), Some(4), 6), s(6));
        assert_eq!(overdue(&foreign, false), []);
        assert_eq!(overdue(&foreign, true), [(A, redis(4))], "nobody leads while etcd is silent");
        foreign.lead(true, s(90));
        assert_eq!(overdue(&foreign, false), [], "it was seen long ago");
    }

    #[test]
    fn the_leader_of_many_timers_checks_each_shard_every_ten_seconds() {
        let mut foreign = Foreign::default();
        foreign.set([A, B].into_iter(), 40, s(0));
        foreign.take(s(1_000_000), false);
        answered(&mut foreign, A, None, 0);
        answered(&mut foreign, B, Some(4_000), 0);
        assert_eq!(take(&mut foreign, s(580), false), [], "one of many checks seldom");
        foreign.lead(true, s(580));
        assert_eq!(take(&mut foreign, s(589), false), []);
        assert_eq!(take(&mut foreign, s(590), false), [A, B]);
        answered(&mut foreign, A, None, 590);
        answered(&mut foreign, B, Some(4_000), 590);
        assert_eq!(take(&mut foreign, s(600), false), [A, B]);
        foreign.lead(false, s(600));
        answered(&mut foreign, A, None, 600);
        assert_eq!(take(&mut foreign, s(1_199), false), [], "another leads now");
    }

    #[test]
    fn many_timers_check_at_moments_of_their_own_and_follow_only_their_own_shards() {
        let mut foreign = Foreign::default();
        foreign.set([A].into_iter(), 40, s(0));
        assert_eq!(foreign.to_listen().count(), 0);
        let checks: Vec<Instant> = (0..200)
            .map(|_| {
                foreign.take(s(1_000_000), false);
                answered(&mut foreign, A, Some(10), 0);
                foreign.shards[&A].check.unwrap()
            })
            .collect();
        assert!(checks.iter().all(|&check| check >= s(20) && check <= s(20 + 39 * 5)));
        assert!(checks.iter().any(|&check| check < s(60)) && checks.iter().any(|&check| check > s(150)));
        foreign.set([A, B].into_iter(), 2, s(0));
        assert_eq!(foreign.to_listen().collect::<Vec<_>>(), [A, B]);
    }
}
