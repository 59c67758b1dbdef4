//! The schedule as a table of calls and times.

use super::shard::{FIRST_RETRY, STUCK_RETRY};
use super::*;
use crate::clock;

const EPOCH: u64 = 7;
const NODE: NodeId = NodeId(0);

fn shard(n: u16) -> ShardId {
    ShardId::new(n)
}

fn ms(n: u64) -> UnixMillis {
    UnixMillis::new(n)
}

fn of(n: u16) -> (ShardId, Option<u64>) {
    (shard(n), Some(EPOCH))
}

fn owning(due: &[Option<u64>]) -> Schedule {
    let mut schedule = Schedule::<()>::new(500, Duration::from_micros(300));
    for (n, due) in due.iter().enumerate() {
        schedule.own(shard(n as u16), EPOCH, due.map(ms));
    }
    schedule
}

fn poll_all(schedule: &mut Schedule) {
    let all: Vec<ShardId> = schedule.owned().collect();
    all.into_iter().for_each(|id| schedule.poll(id));
}

fn rounds(schedule: &mut Schedule, at: Instant, redis: u64) -> Vec<Round> {
    schedule.rounds(at, |_, due| due <= ms(redis))
}

fn upcoming(schedule: &Schedule, at: Instant) -> NextRounds {
    schedule.next(at).next().expect("there is a node").1
}

fn light(shards: &[u16], limit: u16) -> Round {
    Round { node: NODE, pipeline: Pipeline::Light, shards: shards.iter().map(|&n| of(n)).collect(), limit }
}

fn heavy(n: u16) -> Round {
    Round { node: NODE, pipeline: Pipeline::Heavy, shards: vec![of(n)], limit: 500 }
}

fn answer(next_due: Option<u64>, more: bool, now: u64) -> Found {
    Found { next_due: next_due.map(ms), more, now: ms(now), early: false, held: None }
}

#[test]
fn what_is_due_goes_in_one_pipeline_and_the_rest_waits_for_the_earliest() {
    /// Due times, Redis's clock, the shards sent, and the next due time.
    type Row = (&'static [Option<u64>], u64, &'static [u16], Option<u64>);
    let table: &[Row] = &[
        (&[None, None], 100, &[], None),
        (&[Some(100), Some(101)], 99, &[], Some(100)),
        (&[Some(100), Some(101)], 100, &[0], Some(101)),
        (&[Some(100), None, Some(90)], 100, &[2, 0], None),
    ];
    for &(due, redis, sent, next) in table {
        let now = clock::steady();
        let mut schedule = owning(due);
        let out = rounds(&mut schedule, now, redis);
        let shards: Vec<u16> = out.iter().flat_map(|round| &round.shards).map(|(s, _)| s.get()).collect();
        assert_eq!(shards, sent, "{due:?} at {redis}");
        assert_eq!(upcoming(&schedule, now).due, next.map(ms), "{due:?} at {redis}");
    }
}

#[test]
fn the_ids_of_a_light_pipeline_are_shared_by_its_shards() {
    for (shards, limit) in [(1, 128), (2, 64), (16, 8), (64, 8)] {
        let mut schedule = owning(&vec![Some(1); shards]);
        assert_eq!(rounds(&mut schedule, clock::steady(), 1)[0].limit, limit, "{shards} shards");
    }
}

#[test]
fn more_shards_than_a_pipeline_takes_go_in_turns() {
    let now = clock::steady();
    let mut schedule = owning(&[Some(1); 100]);
    let first = rounds(&mut schedule, now, 1).remove(0);
    assert_eq!(first.shards.len(), LIGHT_SHARDS);
    assert_eq!(rounds(&mut schedule, now, 1), [], "the others are merged");
    for (id, _) in &first.shards {
        schedule.answered((NODE, *id), answer(Some(1), false, 0), now);
    }
    schedule.returned(NODE, Pipeline::Light);
    let second = rounds(&mut schedule, now + Duration::from_millis(1), 1).remove(0);
    let unserved = (64..100).map(of).all(|s| second.shards.contains(&s));
    assert!(unserved, "those that waited come first: {second:?}");
}

#[test]
fn a_wake_that_comes_while_a_call_is_out_is_not_overwritten_by_its_answer() {
    for (woken, answered, next) in [
        (Some(150), Some(300), 150),
        (Some(400), Some(300), 300),
        (None, Some(300), 300),
        (Some(150), None, 150),
    ] {
        let now = clock::steady();
        let mut schedule = owning(&[Some(100)]);
        assert_eq!(rounds(&mut schedule, now, 100), [light(&[0], 128)]);
        if let Some(woken) = woken {
            schedule.wake(shard(0), ms(woken));
        }
        schedule.answered((NODE, shard(0)), answer(answered, false, 100), now);
        schedule.returned(NODE, Pipeline::Light);
        assert_eq!(upcoming(&schedule, now).due, Some(ms(next)), "woken {woken:?}, answered {answered:?}");
    }
}

#[test]
fn a_nearer_wake_lowers_the_next_due_time_and_a_later_one_does_not_raise_it() {
    let mut schedule = owning(&[Some(100)]);
    for (woken, next) in [(200, 100), (50, 50), (70, 50)] {
        schedule.wake(shard(0), ms(woken));
        assert_eq!(upcoming(&schedule, clock::steady()).due, Some(ms(next)));
    }
}

#[test]
fn wakes_closer_than_the_resolution_are_merged() {
    let now = clock::steady();
    let mut schedule = owning(&[Some(100), Some(101)]);
    assert_eq!(rounds(&mut schedule, now, 100), [light(&[0], 128)]);
    schedule.answered((NODE, shard(0)), answer(None, false, 100), now);
    schedule.returned(NODE, Pipeline::Light);
    let soon = now + Duration::from_micros(299);
    assert_eq!(rounds(&mut schedule, soon, 101), []);
    assert_eq!(upcoming(&schedule, soon).not_before, Some(now + Duration::from_micros(300)));
    schedule.wake(shard(0), ms(101));
    assert_eq!(rounds(&mut schedule, now + Duration::from_micros(300), 101), [light(&[1, 0], 64)]);
}

#[test]
fn a_call_that_came_too_early_goes_again_at_once() {
    let now = clock::steady();
    let mut schedule = owning(&[Some(100)]);
    assert_eq!(rounds(&mut schedule, now, 100), [light(&[0], 128)]);
    let early = Found { early: true, ..answer(Some(100), false, 99) };
    schedule.answered((NODE, shard(0)), early, now + Duration::from_micros(50));
    schedule.returned(NODE, Pipeline::Light);
    assert_eq!(upcoming(&schedule, now).not_before, None);
    assert_eq!(rounds(&mut schedule, now + Duration::from_micros(50), 100), [light(&[0], 128)]);
}

#[test]
fn a_third_light_pipeline_waits_for_an_answer() {
    let ms = Duration::from_millis(1);
    let now = clock::steady();
    let mut schedule = owning(&[Some(100), Some(101), Some(102)]);
    assert_eq!(rounds(&mut schedule, now, 100), [light(&[0], 128)]);
    assert_eq!(rounds(&mut schedule, now + ms, 101), [light(&[1], 128)], "one is at work, one on its way");
    assert_eq!(rounds(&mut schedule, now + 2 * ms, 102), []);
    schedule.answered((NODE, shard(0)), answer(None, false, 102), now + 2 * ms);
    schedule.returned(NODE, Pipeline::Light);
    assert_eq!(rounds(&mut schedule, now + 2 * ms, 102), [light(&[2], 128)]);
}

#[test]
fn a_full_batch_goes_again_at_once_alone_and_in_turns_beside_what_is_light() {
    let now = clock::steady();
    let mut schedule = owning(&[Some(100), Some(100), Some(100), Some(200)]);
    assert_eq!(rounds(&mut schedule, now, 100), [light(&[0, 1, 2], 42)]);
    for n in 0..3 {
        schedule.answered((NODE, shard(n)), answer(Some(100), true, 100), now);
    }
    schedule.returned(NODE, Pipeline::Light);
    assert_eq!(rounds(&mut schedule, now, 100), [heavy(0)]);
    assert_eq!(rounds(&mut schedule, now, 100), [], "one at a time");
    schedule.answered((NODE, shard(0)), answer(Some(100), true, 100), now);
    schedule.returned(NODE, Pipeline::Heavy);
    let later = now + Duration::from_millis(1);
    assert_eq!(
        rounds(&mut schedule, later, 200),
        [heavy(1), light(&[3], 128)],
        "the one that waited longest"
    );
    schedule.answered((NODE, shard(1)), answer(None, false, 200), later);
    schedule.returned(NODE, Pipeline::Heavy);
    assert_eq!(rounds(&mut schedule, later, 200), [heavy(2)]);
    schedule.answered((NODE, shard(2)), answer(None, false, 200), later);
    schedule.returned(NODE, Pipeline::Heavy);
    assert_eq!(rounds(&mut schedule, later, 200), [heavy(0)]);
}

#[test]
fn a_shard_that_failed_rests_longer_each_time_and_holds_up_no_other() {
    let now = clock::steady();
    let mut schedule = owning(&[Some(100), Some(100)]);
    let mut at = now;
    for rest in [20, 40, 80, 160, 320, 640, 1000, 1000] {
        assert_eq!(rounds(&mut schedule, at, 100).len(), 1);
        schedule.failed((NODE, shard(0)), at);
        schedule.answered((NODE, shard(1)), answer(Some(100), false, 99), at);
        schedule.returned(NODE, Pipeline::Light);
        assert_eq!(upcoming(&schedule, at).anyway, Some(at + Duration::from_millis(rest)));
        assert_eq!(upcoming(&schedule, at).due, Some(ms(100)), "the other is not affected");
        at += Duration::from_millis(rest);
    }
    assert_eq!(rounds(&mut schedule, at, 100)[0].shards.len(), 2);
    schedule.answered((NODE, shard(0)), answer(None, false, 100), at);
    schedule.returned(NODE, Pipeline::Light);
    poll_all(&mut schedule);
    rounds(&mut schedule, at + Duration::from_millis(1), 0);
    schedule.failed((NODE, shard(0)), at);
    assert_eq!(schedule.shards[&shard(0)].resting, Some(at + FIRST_RETRY), "an answer ends the series");
}

#[test]
fn an_answer_that_left_what_is_due_is_not_repeated_at_once() {
    let now = clock::steady();
    let mut schedule = owning(&[Some(100)]);
    rounds(&mut schedule, now, 100);
    schedule.answered((NODE, shard(0)), answer(Some(100), false, 105), now);
    schedule.returned(NODE, Pipeline::Light);
    let soon = now + Duration::from_millis(1);
    assert_eq!(rounds(&mut schedule, soon, 105), []);
    assert_eq!(upcoming(&schedule, soon).anyway, Some(now + STUCK_RETRY));
    assert_eq!(rounds(&mut schedule, now + STUCK_RETRY, 110).len(), 1);
}

#[test]
fn a_look_goes_out_whatever_is_due_and_counts_as_one() {
    let now = clock::steady();
    let mut schedule = owning(&[Some(100), None]);
    poll_all(&mut schedule);
    assert_eq!(upcoming(&schedule, now).anyway, Some(now));
    assert_eq!(rounds(&mut schedule, now, 100), [light(&[0, 1], 64)]);
    assert!(schedule.was_due(shard(0)) && !schedule.was_due(shard(1)));
}

#[test]
fn a_stopped_or_dropped_shard_is_not_pumped() {
    let now = clock::steady();
    let mut schedule = owning(&[Some(100), Some(100)]);
    schedule.jump(NODE, true);
    schedule.drop(shard(1));
    assert_eq!(rounds(&mut schedule, now, 100), []);
    assert_eq!(upcoming(&schedule, now), NextRounds { due: None, not_before: None, anyway: None });
    schedule.doubt(shard(0), true);
    schedule.jump(NODE, false);
    assert_eq!(rounds(&mut schedule, now, 100), [], "it is still in doubt");
    schedule.doubt(shard(0), false);
    assert_eq!(rounds(&mut schedule, now, 100), [light(&[0], 128)]);
}

#[test]
fn what_is_due_waits_for_no_look() {
    let now = clock::steady();
    let mut schedule = owning(&[vec![None; 200], vec![Some(100); 3]].concat());
    poll_all(&mut schedule);
    let polls = rounds(&mut schedule, now, 99).remove(0);
    assert_eq!(polls.shards.len(), POLLS_ALONE, "nothing is due yet");
    let later = now + Duration::from_millis(1);
    assert_eq!(rounds(&mut schedule, later, 99), [], "what becomes due has the other pipeline");
    assert_eq!(upcoming(&schedule, later).anyway, None, "the answer asks for more polls");
    let due = rounds(&mut schedule, later, 100).remove(0);
    assert_eq!(due.shards[..3], [of(200), of(201), of(202)]);
    assert_eq!(due.shards.len(), 3 + POLLS_BESIDE, "polls continue under load");
}

#[test]
fn a_wake_that_overtakes_the_answer_to_its_claim_is_not_dropped() {
    for (woken, claimed, next) in [(50, Some(100), 50), (150, Some(100), 100), (50, None, 50)] {
        let mut schedule = owning(&[]);
        schedule.expect(shard(0));
        schedule.wake(shard(0), ms(woken));
        schedule.own(shard(0), EPOCH, claimed.map(ms));
        assert_eq!(
            upcoming(&schedule, clock::steady()).due,
            Some(ms(next)),
            "woken {woken}, claimed {claimed:?}"
        );
    }
    let mut schedule = owning(&[]);
    schedule.wake(shard(0), ms(50));
    schedule.own(shard(0), EPOCH, None);
    assert_eq!(upcoming(&schedule, clock::steady()).due, None, "what is another's is not kept");
}

#[test]
fn a_shard_owned_again_has_the_new_epoch() {
    let now = clock::steady();
    let mut schedule = owning(&[Some(100)]);
    schedule.doubt(shard(0), true);
    schedule.own(shard(0), EPOCH + 1, Some(ms(100)));
    assert_eq!(rounds(&mut schedule, now, 100)[0].shards, [(shard(0), Some(EPOCH + 1))]);
}

#[test]
fn a_node_that_does_not_answer_holds_up_no_other_and_a_shard_that_moves_is_polled_at_its_new_one() {
    let now = clock::steady();
    let other = NodeId(1);
    let mut schedule = Schedule::<()>::new(500, Duration::ZERO);
    schedule.place(shard(1), other);
    schedule.own(shard(0), EPOCH, Some(ms(1)));
    schedule.own(shard(1), EPOCH, Some(ms(1)));
    let away = |n: u16| Round { node: other, ..light(&[n], 128) };
    assert_eq!(rounds(&mut schedule, now, 1), [light(&[0], 128), away(1)]);
    schedule.answered((other, shard(1)), answer(Some(2), false, 1), now);
    schedule.returned(other, Pipeline::Light);
    assert_eq!(rounds(&mut schedule, now, 2), [away(1)], "the first node has not answered");
    schedule.place(shard(0), other);
    assert_eq!(rounds(&mut schedule, now, 2), [away(0)]);
    schedule.answered((other, shard(0)), answer(None, false, 2), now);
    schedule.returned(other, Pipeline::Light);
    assert_eq!(schedule.earliest(), BTreeMap::from([(other, ms(2))]));
    assert_eq!(schedule.owned_at(NODE).count(), 0);
}

#[test]
fn what_the_former_node_of_a_shard_answers_late_is_not_taken_for_its_new_one() {
    let now = clock::steady();
    let other = NodeId(1);
    for fails in [false, true] {
        let mut schedule = owning(&[Some(100)]);
        assert_eq!(rounds(&mut schedule, now, 100), [light(&[0], 128)]);
        schedule.place(shard(0), other);
        assert_eq!(rounds(&mut schedule, now, 100), [Round { node: other, ..light(&[0], 128) }]);
        schedule.wake(shard(0), ms(150));
        let counts = match fails {
            true => schedule.failed((NODE, shard(0)), now),
            false => schedule.answered((NODE, shard(0)), answer(None, false, 100), now),
        };
        assert_eq!(counts, None);
        schedule.returned(NODE, Pipeline::Light);
        assert_eq!(rounds(&mut schedule, now, 200), [], "the new node has not answered");
        assert!(schedule.answered((other, shard(0)), answer(Some(300), false, 100), now).is_some());
        schedule.returned(other, Pipeline::Light);
        assert_eq!(schedule.earliest(), BTreeMap::from([(other, ms(150))]), "the wake is not lost");
    }
}

#[test]
fn an_answer_for_a_shard_that_was_given_away_says_nothing() {
    let now = clock::steady();
    let mut schedule = owning(&[Some(100)]);
    rounds(&mut schedule, now, 100);
    schedule.drop(shard(0));
    assert_eq!(schedule.answered((NODE, shard(0)), answer(Some(100), true, 100), now), None);
    assert_eq!(schedule.failed((NODE, shard(0)), now), None);
    assert_eq!(schedule.count(), 0);
}

/// The holds to set and to end at the default node.
fn holds(schedule: &mut Schedule, proven: bool) -> Vec<(u16, bool)> {
    schedule.holds(NODE, proven).into_iter().map(|hold| (hold.shard.get(), hold.on)).collect()
}

#[test]
fn a_jump_holds_every_shard_once_and_a_proven_clock_lets_them_go() {
    let mut schedule = owning(&[Some(1), Some(1)]);
    assert_eq!(holds(&mut schedule, true), []);
    schedule.jump(NODE, true);
    assert_eq!(holds(&mut schedule, false), [(0, true), (1, true)]);
    assert_eq!(holds(&mut schedule, false), [], "they are under way");
    schedule.settled(shard(0), true);
    schedule.settled(shard(1), false);
    assert_eq!(holds(&mut schedule, false), [(1, true)], "a failed hold is sent again");
    schedule.settled(shard(1), true);
    schedule.jump(NODE, false);
    assert_eq!(holds(&mut schedule, true), [(0, false), (1, false)]);
    assert_eq!(rounds(&mut schedule, clock::steady(), 1), [], "their node still holds them");
    schedule.settled(shard(0), true);
    schedule.settled(shard(1), false);
    assert_eq!(holds(&mut schedule, true), [(1, false)], "a failed end of a hold is sent again");
    assert_eq!(rounds(&mut schedule, clock::steady(), 1), [light(&[0], 128)]);
}

#[test]
fn a_hold_of_an_earlier_owner_is_learned_from_the_answer_and_ended() {
    let now = clock::steady();
    let mut schedule = owning(&[Some(1), None]);
    rounds(&mut schedule, now, 1);
    schedule.answered((NODE, shard(0)), Found { held: Some(true), ..answer(Some(1), false, 0) }, now);
    schedule.returned(NODE, Pipeline::Light);
    assert!(schedule.hold_any());
    assert_eq!(holds(&mut schedule, false), [], "the clock is not proven yet");
    assert_eq!(holds(&mut schedule, true), [(0, false)]);
    assert_eq!(rounds(&mut schedule, now + Duration::from_secs(1), 1), []);
    schedule.settled(shard(0), true);
    assert!(!schedule.hold_any() && holds(&mut schedule, true).is_empty());
    assert_eq!(rounds(&mut schedule, now + Duration::from_secs(1), 1).len(), 1);
}

#[test]
fn a_lost_shard_leaves_nothing_behind() {
    let now = clock::steady();
    let mut schedule = Schedule::<Vec<u8>>::new(500, Duration::ZERO);
    schedule.expect(shard(0));
    schedule.wake(shard(0), ms(1));
    schedule.own(shard(0), EPOCH, Some(ms(1)));
    schedule.kept_mut(shard(0)).unwrap().push(1);
    schedule.rounds(now, |_, _| true);
    schedule.answered((NODE, shard(0)), Found { held: Some(true), ..answer(Some(1), true, 1) }, now);
    schedule.returned(NODE, Pipeline::Light);
    schedule.holds(NODE, true);
    schedule.poll(shard(0));
    schedule.own(shard(0), EPOCH + 1, None);
    assert_eq!(schedule.kept(shard(0)), Some(&vec![1]), "the shard was not lost between");
    assert!(schedule.drop(shard(0)) && !schedule.drop(shard(0)));
    assert!(schedule.shards.is_empty() && schedule.expected.is_empty());
    assert_eq!(schedule.ways[&NODE].queues, Queues::default());
    schedule.own(shard(0), EPOCH, None);
    assert_eq!(schedule.kept(shard(0)), Some(&Vec::new()));
}
