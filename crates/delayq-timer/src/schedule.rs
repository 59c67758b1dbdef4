//! Which shards to pump now, and when to look again: the timer's decisions, without a clock or a connection.
//!
//! Calls go out in two lanes, so that one flood delays nobody else. What is due goes by the *light* lane: every due
//! shard in one pipeline, with few ids each. A shard that had more than that goes by the *heavy* lane, alone and with
//! a full batch, in turns with the other heavy ones. Redis runs one pipeline's scripts without a pause between, so the
//! lanes' sizes bound what any other client waits.

use delayq_core::{ShardId, UnixMillis};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Shards in one light pipeline: some 15 µs of Redis's time each while nothing is due.
const LIGHT_SHARDS: usize = 64;
/// Ids in one light pipeline, over all its shards: some 0.4 ms of Redis's time.
const LIGHT_IDS: u16 = 512;
/// Heavy calls under way at once: one at work, one on its way.
const HEAVY_CALLS: usize = 2;
/// How long to rest before trying a shard again that failed; doubled each time.
const FIRST_RETRY: Duration = Duration::from_millis(20);
const LONGEST_RETRY: Duration = Duration::from_secs(1);
/// How long to rest where an answer says that what is due stayed where it was.
const STUCK_RETRY: Duration = Duration::from_millis(5);

/// What is known of the shards that are owned, and what is under way.
#[derive(Clone, Debug)]
pub(crate) struct Schedule {
    shards: BTreeMap<ShardId, Shard>,
    batch: u16,
    resolution: Duration,
    light_out: bool,
    heavy_out: usize,
    light_sent: Option<Instant>,
    turn: u64,
}

#[derive(Clone, Debug)]
struct Shard {
    epoch: u64,
    /// The earliest time something is due; lowered by wakes, replaced by answers.
    next_due: Option<UnixMillis>,
    /// The earliest wake heard while a call was out: the call's answer may be older than it.
    heard: Option<UnixMillis>,
    lane: Option<Lane>,
    /// Whether to look, whatever is due.
    look: bool,
    /// Whether the last call was sent for a due time, and not only to look.
    sent_for_due: bool,
    more: bool,
    resting: Option<Instant>,
    failures: u32,
    /// Held, or its ownership in doubt: not pumped until it is owned anew or let go.
    stopped: bool,
    turn: u64,
}

/// The lane of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    /// Many shards, few ids each.
    Light,
    /// One shard, a full batch.
    Heavy,
}

/// One pipeline to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Round {
    /// Its lane.
    pub(crate) lane: Lane,
    /// The shards, each with its epoch.
    pub(crate) shards: Vec<(ShardId, Option<u64>)>,
    /// The most ids of each shard.
    pub(crate) limit: u16,
}

/// When to look again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Next {
    /// The earliest due time of a shard that could be pumped, by Redis's clock.
    pub(crate) due: Option<UnixMillis>,
    /// No call goes out for it before this moment of the local clock.
    pub(crate) not_before: Option<Instant>,
    /// When a shard is to be pumped whatever is due: the end of a rest, or a look.
    pub(crate) anyway: Option<Instant>,
}

/// What an answer says of a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    /// When the shard has to be looked at next.
    pub(crate) next_due: Option<UnixMillis>,
    /// Whether more is due now.
    pub(crate) more: bool,
    /// Redis's clock when it was answered.
    pub(crate) now: UnixMillis,
}

// === impl Schedule ===

impl Schedule {
    /// No shards. `batch` is the most ids of one call, wake-ups closer than `resolution` are merged.
    pub(crate) fn new(batch: u16, resolution: Duration) -> Self {
        Self {
            shards: BTreeMap::new(),
            batch,
            resolution,
            light_out: false,
            heavy_out: 0,
            light_sent: None,
            turn: 0,
        }
    }

    /// A shard is owned under this epoch, for the first time or anew.
    pub(crate) fn own(&mut self, shard: ShardId, epoch: u64, next_due: Option<UnixMillis>) {
        let known = self.shards.get(&shard);
        let (lane, heard) = known.map_or((None, None), |known| (known.lane, known.heard));
        let next_due = earlier(next_due, heard);
        let turn = self.turn;
        let owned = Shard {
            epoch,
            next_due,
            heard,
            lane,
            look: false,
            sent_for_due: false,
            more: false,
            resting: None,
            failures: 0,
            stopped: false,
            turn,
        };
        self.shards.insert(shard, owned);
    }

    /// Lets a shard go: nothing is sent for it any more. Whether a call is still out for it.
    pub(crate) fn drop(&mut self, shard: ShardId) -> bool {
        self.shards.remove(&shard).is_some_and(|shard| shard.lane.is_some())
    }

    /// Stops a shard until it is owned anew, or goes on with it.
    pub(crate) fn stop(&mut self, shard: ShardId, stopped: bool) {
        if let Some(shard) = self.shards.get_mut(&shard) {
            shard.stopped = stopped;
            shard.look |= !stopped;
        }
    }

    /// A wake: something is due at `due`.
    pub(crate) fn hear(&mut self, shard: ShardId, due: UnixMillis) {
        let Some(shard) = self.shards.get_mut(&shard) else { return };
        shard.next_due = earlier(shard.next_due, Some(due));
        if shard.lane.is_some() {
            shard.heard = earlier(shard.heard, Some(due));
        }
    }

    /// A look found this to be the next due time, while no wake was lost.
    pub(crate) fn saw(&mut self, shard: ShardId, next_due: Option<UnixMillis>) {
        let Some(shard) = self.shards.get_mut(&shard) else { return };
        // What a look read may be older than a wake that was heard since: the earlier one costs an empty call at most.
        shard.next_due = earlier(shard.next_due, next_due);
    }

    /// Looks at every shard, whatever is due.
    pub(crate) fn look_at_all(&mut self) {
        self.shards.values_mut().for_each(|shard| shard.look = true);
    }

    /// The pipelines to send now, given which due times a call sent now finds.
    pub(crate) fn rounds(&mut self, now: Instant, finds: impl Fn(UnixMillis) -> bool) -> Vec<Round> {
        let mut rounds = Vec::new();
        while self.heavy_out < HEAVY_CALLS
            && let Some(shard) = self.next_heavy(now)
        {
            rounds.push(self.send(Lane::Heavy, &[(shard, true)], self.batch, now));
        }
        if !self.light_out && self.light_from().is_none_or(|from| now >= from) {
            let due = self.light(now, &finds);
            if !due.is_empty() {
                let share = usize::from(LIGHT_IDS) / due.len();
                let limit =
                    u16::try_from(share).unwrap_or(LIGHT_IDS).clamp(8, self.batch.max(8)).min(self.batch);
                rounds.push(self.send(Lane::Light, &due, limit, now));
            }
        }
        rounds
    }

    /// When to ask for rounds again, if nothing is heard or answered before.
    pub(crate) fn next(&self, now: Instant) -> Next {
        let mut next = Next { due: None, not_before: self.light_from(), anyway: None };
        if self.light_out {
            return next;
        }
        for shard in
            self.shards.values().filter(|shard| shard.lane.is_none() && !shard.stopped && !shard.more)
        {
            match shard.resting {
                Some(until) if until > now => {
                    next.anyway = [next.anyway, Some(until)].into_iter().flatten().min();
                }
                _ if shard.look => {
                    let soon = next.not_before.map_or(now, |from| from.max(now));
                    next.anyway = Some(next.anyway.map_or(soon, |anyway| anyway.min(soon)));
                }
                _ => next.due = earlier(next.due, shard.next_due),
            }
        }
        next
    }

    /// An answer came for a shard.
    pub(crate) fn answered(&mut self, shard: ShardId, answer: Answer, now: Instant) {
        let Some(shard) = self.shards.get_mut(&shard) else { return };
        shard.lane = None;
        shard.failures = 0;
        shard.more = answer.more;
        shard.next_due = earlier(answer.next_due, shard.heard.take());
        // A due time that is over and still there would be asked for again and again.
        let stuck = !answer.more && answer.next_due.is_some_and(|due| due <= answer.now);
        shard.resting = stuck.then(|| now + STUCK_RETRY);
    }

    /// A call for a shard failed: it rests.
    pub(crate) fn failed(&mut self, shard: ShardId, now: Instant) {
        let Some(shard) = self.shards.get_mut(&shard) else { return };
        shard.lane = None;
        shard.heard = None;
        shard.more = false;
        shard.look = true;
        let rest = FIRST_RETRY * 2_u32.saturating_pow(shard.failures.min(16));
        shard.resting = Some(now + rest.min(LONGEST_RETRY));
        shard.failures += 1;
    }

    /// A pipeline is through; each of its shards was answered, failed, or let go meanwhile.
    pub(crate) fn returned(&mut self, lane: Lane) {
        match lane {
            Lane::Light => self.light_out = false,
            Lane::Heavy => self.heavy_out = self.heavy_out.saturating_sub(1),
        }
    }

    /// Whether the last call for a shard was sent for a due time, and not only to look.
    pub(crate) fn was_due(&self, shard: ShardId) -> bool {
        self.shards.get(&shard).is_some_and(|shard| shard.sent_for_due)
    }

    /// The epoch of a shard that is owned.
    pub(crate) fn epoch(&self, shard: ShardId) -> Option<u64> {
        self.shards.get(&shard).map(|shard| shard.epoch)
    }

    /// Every shard that is owned, with its epoch.
    pub(crate) fn owned(&self) -> impl Iterator<Item = (ShardId, u64)> {
        self.shards.iter().map(|(&shard, known)| (shard, known.epoch))
    }

    /// The earliest due time of all, also of those that cannot be pumped now.
    pub(crate) fn earliest(&self) -> Option<UnixMillis> {
        self.shards.values().filter_map(|shard| shard.next_due).min()
    }

    fn light_from(&self) -> Option<Instant> {
        self.light_sent.map(|sent| sent + self.resolution)
    }

    /// The shards of a light pipeline, and whether something is due in them.
    fn light(&self, now: Instant, finds: impl Fn(UnixMillis) -> bool) -> Vec<(ShardId, bool)> {
        let mut wanted = Vec::new();
        for (&id, shard) in &self.shards {
            let due = shard.next_due.is_some_and(&finds);
            if (due || shard.look) && !shard.more && shard.is_free(now) {
                wanted.push((shard.turn, id, due));
            }
        }
        if wanted.len() > LIGHT_SHARDS {
            wanted.sort_unstable();
            wanted.truncate(LIGHT_SHARDS);
        }
        wanted.into_iter().map(|(_, id, due)| (id, due)).collect()
    }

    fn next_heavy(&self, now: Instant) -> Option<ShardId> {
        let heavy = self.shards.iter().filter(|(_, shard)| shard.more && shard.is_free(now));
        heavy.min_by_key(|(_, shard)| shard.turn).map(|(&id, _)| id)
    }

    fn send(&mut self, lane: Lane, shards: &[(ShardId, bool)], limit: u16, now: Instant) -> Round {
        match lane {
            Lane::Light => (self.light_out, self.light_sent) = (true, Some(now)),
            Lane::Heavy => self.heavy_out += 1,
        }
        self.turn += 1;
        let mut round = Round { lane, shards: Vec::with_capacity(shards.len()), limit };
        for &(id, due) in shards {
            let shard = self.shards.get_mut(&id).expect("only shards that are owned are chosen");
            (shard.lane, shard.look, shard.resting, shard.turn) = (Some(lane), false, None, self.turn);
            shard.sent_for_due = due;
            round.shards.push((id, Some(shard.epoch)));
        }
        round
    }
}

// === impl Shard ===

impl Shard {
    fn is_free(&self, now: Instant) -> bool {
        self.lane.is_none() && !self.stopped && self.resting.is_none_or(|until| now >= until)
    }
}

fn earlier(one: Option<UnixMillis>, other: Option<UnixMillis>) -> Option<UnixMillis> {
    [one, other].into_iter().flatten().min()
}

#[cfg(test)]
mod tests {
    use super::*;

    const EPOCH: u64 = 7;

    fn shard(n: u16) -> ShardId {
        ShardId::new(n)
    }

    fn ms(n: u64) -> UnixMillis {
        UnixMillis::new(n)
    }

    fn of(n: u16) -> (ShardId, Option<u64>) {
        (shard(n), Some(EPOCH))
    }

    /// A schedule of shards with these next due times.
    fn owning(due: &[Option<u64>]) -> Schedule {
        let mut schedule = Schedule::new(500, Duration::from_micros(300));
        for (n, due) in due.iter().enumerate() {
            schedule.own(shard(n as u16), EPOCH, due.map(ms));
        }
        schedule
    }

    /// The rounds that go out when Redis's clock reads `redis`.
    fn rounds(schedule: &mut Schedule, at: Instant, redis: u64) -> Vec<Round> {
        schedule.rounds(at, |due| due <= ms(redis))
    }

    fn light(shards: &[u16], limit: u16) -> Round {
        Round { lane: Lane::Light, shards: shards.iter().map(|&n| of(n)).collect(), limit }
    }

    fn heavy(n: u16) -> Round {
        Round { lane: Lane::Heavy, shards: vec![of(n)], limit: 500 }
    }

    fn answer(next_due: Option<u64>, more: bool, now: u64) -> Answer {
        Answer { next_due: next_due.map(ms), more, now: ms(now) }
    }

    #[test]
    fn what_is_due_goes_in_one_pipeline_and_the_rest_waits_for_the_earliest() {
        /// Due times, Redis's clock, the shards that are sent, and what is due next.
        type Row = (&'static [Option<u64>], u64, &'static [u16], Option<u64>);
        let table: &[Row] = &[
            (&[None, None], 100, &[], None),
            (&[Some(100), Some(101)], 99, &[], Some(100)),
            (&[Some(100), Some(101)], 100, &[0], None),
            (&[Some(100), None, Some(90)], 100, &[0, 2], None),
        ];
        for &(due, redis, sent, next) in table {
            let now = Instant::now();
            let mut schedule = owning(due);
            let out = rounds(&mut schedule, now, redis);
            let shards: Vec<u16> = out.iter().flat_map(|round| &round.shards).map(|(s, _)| s.get()).collect();
            assert_eq!(shards, sent, "{due:?} at {redis}");
            assert_eq!(schedule.next(now).due, next.map(ms), "{due:?} at {redis}");
        }
    }

    #[test]
    fn the_ids_of_a_light_pipeline_are_shared_by_its_shards() {
        for (shards, limit) in [(1, 500), (2, 256), (16, 32), (64, 8)] {
            let mut schedule = owning(&vec![Some(1); shards]);
            assert_eq!(rounds(&mut schedule, Instant::now(), 1)[0].limit, limit, "{shards} shards");
        }
    }

    #[test]
    fn more_shards_than_a_pipeline_takes_go_in_turns() {
        let now = Instant::now();
        let mut schedule = owning(&[Some(1); 100]);
        let first = rounds(&mut schedule, now, 1).remove(0);
        assert_eq!(first.shards.len(), LIGHT_SHARDS);
        assert_eq!(rounds(&mut schedule, now, 1), [], "one light pipeline at a time");
        for (id, _) in &first.shards {
            schedule.answered(*id, answer(Some(1), false, 0), now);
        }
        schedule.returned(Lane::Light);
        let second = rounds(&mut schedule, now + Duration::from_millis(1), 1).remove(0);
        let unserved = (64..100).map(of).all(|s| second.shards.contains(&s));
        assert!(unserved, "those that waited come first: {second:?}");
    }

    #[test]
    fn a_wake_that_comes_while_a_call_is_out_is_not_overwritten_by_its_answer() {
        for (heard, answered, next) in [
            (Some(150), Some(300), 150),
            (Some(400), Some(300), 300),
            (None, Some(300), 300),
            (Some(150), None, 150),
        ] {
            let now = Instant::now();
            let mut schedule = owning(&[Some(100)]);
            assert_eq!(rounds(&mut schedule, now, 100), [light(&[0], 500)]);
            if let Some(heard) = heard {
                schedule.hear(shard(0), ms(heard));
            }
            schedule.answered(shard(0), answer(answered, false, 100), now);
            schedule.returned(Lane::Light);
            assert_eq!(schedule.next(now).due, Some(ms(next)), "heard {heard:?}, answered {answered:?}");
        }
    }

    #[test]
    fn a_nearer_wake_lowers_the_next_due_time_and_a_later_one_does_not_raise_it() {
        let mut schedule = owning(&[Some(100)]);
        for (heard, next) in [(200, 100), (50, 50), (70, 50)] {
            schedule.hear(shard(0), ms(heard));
            assert_eq!(schedule.next(Instant::now()).due, Some(ms(next)));
        }
    }

    #[test]
    fn wakes_closer_than_the_resolution_are_merged() {
        let now = Instant::now();
        let mut schedule = owning(&[Some(100), Some(101)]);
        assert_eq!(rounds(&mut schedule, now, 100), [light(&[0], 500)]);
        schedule.answered(shard(0), answer(None, false, 100), now);
        schedule.returned(Lane::Light);
        let soon = now + Duration::from_micros(299);
        assert_eq!(rounds(&mut schedule, soon, 101), []);
        assert_eq!(schedule.next(soon).not_before, Some(now + Duration::from_micros(300)));
        schedule.hear(shard(0), ms(101));
        assert_eq!(rounds(&mut schedule, now + Duration::from_micros(300), 101), [light(&[0, 1], 256)]);
    }

    #[test]
    fn a_full_batch_goes_again_at_once_alone_and_in_turns_beside_what_is_light() {
        let now = Instant::now();
        let mut schedule = owning(&[Some(100), Some(100), Some(100), Some(200)]);
        assert_eq!(rounds(&mut schedule, now, 100), [light(&[0, 1, 2], 170)]);
        for n in 0..3 {
            schedule.answered(shard(n), answer(Some(100), true, 100), now);
        }
        schedule.returned(Lane::Light);
        assert_eq!(rounds(&mut schedule, now, 100), [heavy(0), heavy(1)]);
        assert_eq!(rounds(&mut schedule, now, 100), [], "two at a time");
        schedule.answered(shard(0), answer(Some(100), true, 100), now);
        schedule.returned(Lane::Heavy);
        let later = now + Duration::from_millis(1);
        assert_eq!(rounds(&mut schedule, later, 200), [heavy(2), light(&[3], 500)], "whoever waited longest");
        schedule.answered(shard(1), answer(None, false, 200), later);
        schedule.returned(Lane::Heavy);
        assert_eq!(rounds(&mut schedule, later, 200), [heavy(0)]);
    }

    #[test]
    fn a_shard_that_failed_rests_longer_each_time_and_holds_up_no_other() {
        let now = Instant::now();
        let mut schedule = owning(&[Some(100), Some(100)]);
        let mut at = now;
        for rest in [20, 40, 80, 160, 320, 640, 1000, 1000] {
            assert_eq!(rounds(&mut schedule, at, 100).len(), 1);
            schedule.failed(shard(0), at);
            schedule.answered(shard(1), answer(Some(100), false, 99), at);
            schedule.returned(Lane::Light);
            assert_eq!(schedule.next(at).anyway, Some(at + Duration::from_millis(rest)));
            assert_eq!(schedule.next(at).due, Some(ms(100)), "the other goes on");
            at += Duration::from_millis(rest);
        }
        assert_eq!(rounds(&mut schedule, at, 100)[0].shards.len(), 2);
        schedule.answered(shard(0), answer(None, false, 100), at);
        schedule.returned(Lane::Light);
        schedule.look_at_all();
        rounds(&mut schedule, at + Duration::from_millis(1), 0);
        schedule.failed(shard(0), at);
        assert_eq!(schedule.shards[&shard(0)].resting, Some(at + FIRST_RETRY), "an answer ends the series");
    }

    #[test]
    fn an_answer_that_left_what_is_due_is_not_repeated_at_once() {
        let now = Instant::now();
        let mut schedule = owning(&[Some(100)]);
        rounds(&mut schedule, now, 100);
        schedule.answered(shard(0), answer(Some(100), false, 105), now);
        schedule.returned(Lane::Light);
        let soon = now + Duration::from_millis(1);
        assert_eq!(rounds(&mut schedule, soon, 105), []);
        assert_eq!(schedule.next(soon).anyway, Some(now + STUCK_RETRY));
        assert_eq!(rounds(&mut schedule, now + STUCK_RETRY, 110).len(), 1);
    }

    #[test]
    fn a_look_goes_out_whatever_is_due_and_counts_as_one() {
        let now = Instant::now();
        let mut schedule = owning(&[Some(100), None]);
        schedule.look_at_all();
        assert_eq!(schedule.next(now).anyway, Some(now));
        assert_eq!(rounds(&mut schedule, now, 100), [light(&[0, 1], 256)]);
        assert!(schedule.was_due(shard(0)) && !schedule.was_due(shard(1)));
    }

    #[test]
    fn a_stopped_or_dropped_shard_is_not_pumped() {
        let now = Instant::now();
        let mut schedule = owning(&[Some(100), Some(100)]);
        schedule.stop(shard(0), true);
        schedule.drop(shard(1));
        assert_eq!(rounds(&mut schedule, now, 100), []);
        assert_eq!(schedule.next(now), Next { due: None, not_before: None, anyway: None });
        schedule.stop(shard(0), false);
        assert_eq!(rounds(&mut schedule, now, 100), [light(&[0], 500)]);
    }

    #[test]
    fn a_shard_owned_anew_has_the_new_epoch() {
        let now = Instant::now();
        let mut schedule = owning(&[Some(100)]);
        schedule.stop(shard(0), true);
        schedule.own(shard(0), EPOCH + 1, Some(ms(100)));
        assert_eq!(rounds(&mut schedule, now, 100)[0].shards, [(shard(0), Some(EPOCH + 1))]);
    }
}
