//! The rules of pumping for one shard as vectors, written from what the schedule and the locks do.

use delayq::UnixMillis;
use delayq::protocol::ShardId;
use delayq::protocol::scheduling::{Found, LOCK, Locks, Rota, Schedule};
use serde_json::{Value, json};
use std::path::Path;
use std::time::{Duration, Instant};

const SHARD: ShardId = ShardId::new(0);
const POLL_MS: u64 = 8_000;
/// Redis's clock at the moment of each vector.
const NOW_MS: u64 = 1_700_000_000_000;

/// The state of an owned shard, as ms before now, and due times as ms from now.
#[derive(Clone, Copy)]
struct Owned {
    claimed: u64,
    pumped: u64,
    next_due: Option<i64>,
    /// A wake during the last pump.
    woken: Option<i64>,
    more: bool,
    pump_errors: u32,
}

const QUIET: Owned =
    Owned { claimed: 1_000, pumped: 1_000, next_due: None, woken: None, more: false, pump_errors: 0 };

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn due(by: i64) -> UnixMillis {
    UnixMillis::new(NOW_MS.checked_add_signed(by).unwrap())
}

/// What the real schedule, rota and locks do next with one shard, and in how many ms.
fn turn(state: Owned) -> (&'static str, u64) {
    let now = Instant::now() + Duration::from_secs(60);
    let ago = |before: u64| now - ms(before);
    let mut schedule = Schedule::<()>::new(150, Duration::ZERO);
    let mut rota = Rota::new(ms(POLL_MS), 8, ago(state.pumped));
    let mut locks = Locks::default();
    locks.add([SHARD].into_iter(), ago(state.claimed));
    locks.take(ago(state.claimed));
    locks.claimed(SHARD, ago(state.claimed));
    schedule.own(SHARD, 1, None);
    schedule.poll(SHARD);
    let sent = schedule.rounds(ago(state.pumped), |_, _| true).remove(0);
    if let Some(woken) = state.woken {
        schedule.wake(SHARD, due(woken));
    }
    if state.pump_errors == 0 {
        let (next_due, ran) = (state.next_due.map(due), UnixMillis::new(NOW_MS - state.pumped));
        let found = Found { next_due, more: state.more, now: ran, early: false, held: Some(false) };
        schedule.answered((sent.node, SHARD), found, ago(state.pumped));
        locks.pumped(SHARD, ago(state.pumped));
    }
    for _ in 0..state.pump_errors {
        schedule.failed((sent.node, SHARD), ago(state.pumped));
    }
    schedule.returned(sent.node, sent.pipeline);
    rota.take(&schedule, now).into_iter().for_each(|shard| schedule.poll(shard));
    let rest = |at: Instant| at.saturating_duration_since(now).as_millis() as u64;
    let next = schedule.next(now).next().unwrap().1;
    let by_due = next.due.map(|due| due.get().saturating_sub(NOW_MS));
    let is_heavy = !schedule.clone().rounds(now, |_, due| due.get() <= NOW_MS).is_empty();
    let anyway = next.anyway.map(rest).into_iter().chain(is_heavy.then_some(0));
    let poll = rest(rota.next(1));
    let pump = anyway.chain(by_due).chain([poll]).min().unwrap();
    let claim = rest(locks.next().unwrap());
    if pump <= claim { ("pump", pump) } else { ("claim", claim) }
}

fn owned(name: &str, state: Owned) -> Value {
    let (does, in_ms) = turn(state);
    let at = |by: Option<i64>| by.map(|by| due(by).get());
    json!({
        "name": name, "now_ms": NOW_MS,
        "claimed_ms": NOW_MS - state.claimed, "pumped_ms": NOW_MS - state.pumped,
        "next_due_ms": at(state.next_due), "woken_ms": at(state.woken), "more": state.more,
        "pump_errors": state.pump_errors, "does": does, "in_ms": in_ms,
    })
}

fn all_owned() -> Vec<Value> {
    let due = |by| Owned { next_due: Some(by), ..QUIET };
    vec![
        owned("nothing is due: the lock is renewed 4 s after the last claim", QUIET),
        owned("the renewal is late", Owned { claimed: 4_500, ..QUIET }),
        owned("a message is due soon", due(250)),
        owned("a message is due now", due(0)),
        owned("a message is overdue", due(-30)),
        owned("a message is due after the renewal", due(3_500)),
        owned("a message is due in an hour", due(3_600_000)),
        owned("a wake during the pump is earlier than the answer", Owned { woken: Some(40), ..due(2_000) }),
        owned("a wake during the pump is later than the answer", Owned { woken: Some(2_000), ..due(40) }),
        owned("a wake during a pump that found nothing", Owned { woken: Some(70), ..QUIET }),
        owned("more is due", Owned { more: true, ..due(-5) }),
        owned("a poll comes before the renewal", Owned { claimed: 100, pumped: 7_900, ..QUIET }),
        owned("a poll is late", Owned { claimed: 100, pumped: 8_200, ..QUIET }),
        owned("a poll comes before a message", Owned { claimed: 100, pumped: 7_900, ..due(200) }),
        owned("a pump left what is due in place", Owned { pumped: 0, claimed: 1_000, ..due(-40) }),
        owned("a pump failed", Owned { pumped: 0, pump_errors: 1, ..QUIET }),
        owned("three pumps failed", Owned { pumped: 0, pump_errors: 3, ..QUIET }),
        owned("ten pumps failed", Owned { pumped: 0, pump_errors: 10, ..QUIET }),
    ]
}

/// The ms until the next claim after an event, apart from the random part.
fn claims_after() -> Vec<Value> {
    let now = Instant::now();
    let watched = || {
        let mut locks = Locks::default();
        locks.add([SHARD].into_iter(), now);
        locks.take(now);
        locks
    };
    let after = |event: &str, lock: Option<u64>, spread: u64, happen: &dyn Fn(&mut Locks)| {
        let mut locks = watched();
        happen(&mut locks);
        let rest = (locks.next().unwrap() - now).as_millis() as u64;
        let claim_in = lock.filter(|_| spread > 0).unwrap_or(rest);
        assert!((claim_in..=claim_in + spread).contains(&rest), "{event}: {rest}");
        json!({ "event": event, "lock_ms": lock, "claim_in_ms": claim_in, "random_ms": spread })
    };
    let with_lock =
        |lock| after("owned", Some(lock), 500, &move |locks| locks.refused(SHARD, Some(ms(lock)), now));
    vec![
        after("claimed", None, 0, &|locks| locks.claimed(SHARD, now)),
        with_lock(9_999),
        with_lock(1),
        after("owned", None, 0, &|locks| locks.refused(SHARD, None, now)),
        after("free", None, 0, &|locks| {
            locks.refused(SHARD, None, now);
            locks.freed(SHARD, now);
        }),
        after("free during the claim", None, 0, &|locks| {
            locks.freed(SHARD, now);
            locks.refused(SHARD, Some(ms(5_000)), now);
        }),
        after("fenced", None, 0, &|locks| {
            locks.claimed(SHARD, now);
            locks.lost(SHARD, now);
        }),
        after("error", None, 0, &|locks| locks.failed(SHARD, now)),
        after("pumps were not answered for 10 s", None, 0, &|locks| {
            locks.claimed(SHARD, now - ms(10_000));
            locks.claimed(SHARD, now);
        }),
    ]
}

#[test]
#[allow(clippy::disallowed_methods, reason = "the variable asks for the vectors to be written again")]
fn the_vectors_of_pumping_are_what_the_schedule_and_the_locks_do() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/vectors/pumping.json");
    let said = json!({
        "lock_ms": LOCK.as_millis() as u64, "poll_ms": POLL_MS, "owned": all_owned(), "claims": claims_after(),
    });
    let text = serde_json::to_string_pretty(&said).unwrap() + "\n";
    if std::env::var_os("DELAYQ_UPDATE").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    assert_eq!(std::fs::read_to_string(&path).unwrap_or_default(), text, "write it with DELAYQ_UPDATE=1");
}
