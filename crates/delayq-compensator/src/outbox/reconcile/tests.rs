//! Rows of one message, taken together.

use super::*;
use std::time::UNIX_EPOCH;

const NOW: UnixMillis = UnixMillis::new(1);

/// The state after a sequence of rows of a message, such as `p5 r7`: put due at 5 ms, rescheduled to 7 ms.
fn net(rows: &str) -> Option<Net> {
    let mut ledger = Ledger::default();
    for (seq, word) in (1..).zip(rows.split_whitespace()) {
        let (verb, rest) = word.split_at(1);
        let (due, expected) = rest.split_once('?').unwrap_or((rest, ""));
        let at = |ms: &str| ms.parse().ok().map(|ms| UNIX_EPOCH + Duration::from_millis(ms));
        let (verb, again) = match verb {
            "p" | "P" => ("put", (verb == "P").then_some("")),
            "L" => ("put", Some("later")),
            "S" => ("put", Some("sooner")),
            "K" => ("put", Some("later keep")),
            "E" if expected.is_empty() => ("put", Some("content")),
            "E" => ("put", Some(&*format!("content expected={expected}").leak())),
            "c" => ("cancel", None),
            _ => ("reschedule", None),
        };
        let row = OutboxRow {
            verb: verb.to_owned(),
            replaces: again.is_some(),
            again: again.map(str::to_owned),
            due: at(due),
            expected: at(expected),
            ..OutboxRow::default()
        };
        ledger.add((1, seq), &row, NOW);
    }
    ledger.0.into_values().next()
}

#[test]
fn the_rows_of_a_message_are_taken_together_in_their_order() {
    let pending = |seq, ms| {
        let due = Due::At(UnixMillis::new(ms));
        let (past, waited) = (Duration::ZERO, Duration::ZERO);
        Some(Net::Pending { key: (1, seq), due, past, waited, is_debounced: false })
    };
    for (rows, expected) in [
        ("p5", pending(1, 5)),
        ("p5 r7", pending(1, 7)),
        ("p5 r7?5", pending(1, 7)),
        ("p5 r7?6", pending(1, 5)),
        ("p5 p6", pending(1, 5)),
        ("p5 P6", pending(2, 6)),
        ("p5 L6", pending(2, 6)),
        ("p6 L5", pending(2, 6)),
        ("p5 S6", pending(2, 5)),
        ("p6 S5", pending(2, 5)),
        ("p5 K6", pending(1, 6)),
        ("p5 E6", pending(2, 5)),
        ("p5 E6?5", pending(2, 5)),
        ("p5 E6?4", pending(1, 5)),
        ("E6?5", None),
        ("p5 c E6?5", Some(Net::Cancelled)),
        ("p5 c p6 E7?6", Some(Net::Unclear)),
        ("p5 c L4", pending(3, 4)),
        ("p5 c", Some(Net::Cancelled)),
        ("p5 c p6", Some(Net::Unclear)),
        ("p5 c P6", pending(3, 6)),
        ("p5 c p6 c", Some(Net::Cancelled)),
        ("p5 c r7", Some(Net::Cancelled)),
        // The put is not kept any more.
        ("r7", None),
    ] {
        assert_eq!(net(rows), expected, "{rows}");
    }
}

#[test]
fn rows_of_one_id_in_two_groups_are_of_two_messages_unless_it_is_generated() {
    let row = |verb: &str, id: &str, group: Option<&str>| OutboxRow {
        verb: verb.to_owned(),
        id: id.to_owned(),
        group_id: group.map(str::to_owned),
        delay_ms: (verb == "put").then_some(1000),
        ..OutboxRow::default()
    };
    let left = |rows: &[OutboxRow]| {
        let mut ledger = Ledger::default();
        (1..).zip(rows).for_each(|(seq, row)| ledger.add((1, seq), row, NOW));
        ledger.0.into_values().filter(|net| matches!(net, Net::Pending { .. })).count()
    };
    assert_eq!(left(&[row("put", "k1", Some("a")), row("cancel", "k1", Some("b"))]), 1);
    assert_eq!(left(&[row("put", "k1", Some("a")), row("put", "k1", None), row("cancel", "k1", None)]), 1);
    let generated = "~0190a000-0000-7003-8000-000000000001";
    assert_eq!(left(&[row("put", generated, Some("a")), row("cancel", generated, None)]), 0);
}

#[test]
fn what_follows_a_message_that_was_due_by_then_is_of_another_one() {
    let row = |verb: &str, delay_s: u64, age_s: u64| OutboxRow {
        verb: verb.to_owned(),
        delay_ms: (verb != "cancel").then_some(delay_s as i64 * 1000),
        age: Duration::from_secs(age_s),
        ..OutboxRow::default()
    };
    let left = |s| Due::After(Duration::from_secs(s));
    for (rows, expected) in [
        // Put 100 s ago for 90 s later; 50 s ago, the message was still pending.
        ([row("put", 90, 100), row("put", 90, 50)], (1, Some((left(0), 10)))),
        ([row("put", 90, 100), row("reschedule", 90, 50)], (1, Some((left(40), 0)))),
        // Put 100 s ago for 10 s later; 50 s ago, the message had been delivered.
        ([row("put", 10, 100), row("put", 90, 50)], (0, None)),
        ([row("put", 10, 100), row("reschedule", 90, 50)], (1, Some((left(0), 90)))),
    ] {
        let mut ledger = Ledger::default();
        for (seq, row) in (1..).zip(&rows) {
            ledger.add((1, seq), row, NOW);
        }
        let found = match ledger.0.into_values().next().unwrap() {
            Net::Pending { key, due, past, .. } => (key.1, Some((due, past.as_secs()))),
            Net::Unclear => (0, None),
            Net::Cancelled => (-1, None),
        };
        assert_eq!(found, expected, "{rows:?}");
    }
}

#[test]
fn a_debounced_message_is_due_at_most_its_longest_wait_after_the_first_put() {
    let debounced = |age_s: u64| OutboxRow {
        verb: "put".to_owned(),
        delay_ms: Some(60_000),
        replaces: true,
        again: Some("within=100000".to_owned()),
        age: Duration::from_secs(age_s),
        ..OutboxRow::default()
    };
    for (ages, expected) in [([50, 40, 30], (30, 0)), ([95, 45, 10], (5, 0)), ([130, 80, 40], (0, 30))] {
        let mut ledger = Ledger::default();
        for (seq, age) in (1..).zip(ages) {
            ledger.add((1, seq), &debounced(age), NOW);
        }
        let Some(Net::Pending { key, due, past, .. }) = ledger.0.into_values().next() else {
            panic!("pending")
        };
        let expected = (Due::After(Duration::from_secs(expected.0)), Duration::from_secs(expected.1));
        assert_eq!((key.1, (due, past)), (3, expected), "{ages:?}");
    }
}

#[test]
fn a_message_that_was_not_debounced_has_waited_since_its_last_put_or_move() {
    let row = |verb: &str, again: Option<&str>, age_s: u64| OutboxRow {
        verb: verb.to_owned(),
        delay_ms: Some(1_000_000),
        replaces: again.is_some(),
        again: again.map(str::to_owned),
        age: Duration::from_secs(age_s),
        ..OutboxRow::default()
    };
    let within = Some("within=100000");
    for (rows, left_s) in [
        ([row("put", None, 90), row("reschedule", None, 50), row("put", within, 10)], 50),
        ([row("put", None, 90), row("put", Some("later"), 50), row("put", within, 10)], 50),
        ([row("put", within, 90), row("reschedule", None, 50), row("put", within, 10)], 10),
    ] {
        let mut ledger = Ledger::default();
        for (seq, row) in (1..).zip(&rows) {
            ledger.add((1, seq), row, NOW);
        }
        let Some(Net::Pending { due, .. }) = ledger.0.into_values().next() else { panic!("pending") };
        assert_eq!(due, Due::After(Duration::from_secs(left_s)), "{rows:?}");
    }
}

#[test]
fn a_throttled_put_is_due_a_window_after_the_last_delivery_and_a_swallowed_one_never() {
    let put = |again: &str, age_s: u64, delay_s: i64| OutboxRow {
        verb: "put".to_owned(),
        delay_ms: Some(delay_s * 1000),
        replaces: true,
        again: Some(again.to_owned()),
        age: Duration::from_secs(age_s),
        ..OutboxRow::default()
    };
    const THROTTLE: &str = "throttle=100000";
    const SWALLOW: &str = "swallow=100000";
    for (rows, left_s, seq) in [
        // Put and delivered 50 s ago; 10 s ago, put again.
        (vec![put(THROTTLE, 50, 0), put(THROTTLE, 10, 0)], 50, 2),
        (vec![put(THROTTLE, 50, 0), put(THROTTLE, 30, 0), put(THROTTLE, 10, 0)], 50, 3),
        (vec![put(THROTTLE, 50, 0), put(THROTTLE, 10, 80)], 70, 2),
        (vec![put(THROTTLE, 150, 0), put(THROTTLE, 10, 0)], -10, 2),
        (vec![put(THROTTLE, 105, 0), put(THROTTLE, 10, 0)], -5, 2),
        (vec![put(SWALLOW, 50, 0), put(SWALLOW, 10, 0)], -50, 1),
        (vec![put(SWALLOW, 50, 70), put(SWALLOW, 10, 0)], 20, 1),
        (vec![put(SWALLOW, 150, 0), put(SWALLOW, 10, 0)], -10, 2),
    ] {
        let mut ledger = Ledger::default();
        for (seq, row) in (1..).zip(&rows) {
            ledger.add((1, seq), row, NOW);
        }
        let Some(Net::Pending { key, due, past, .. }) = ledger.0.into_values().next() else {
            panic!("pending")
        };
        assert_eq!((rest(due, past, NOW), key.1), (left_s * 1000, seq), "{rows:?}");
    }
}

#[test]
fn of_a_delay_what_is_left_counts_and_how_long_ago_it_passed() {
    let s = Duration::from_secs;
    for (age, left, past) in [(2, 3, 0), (5, 0, 0), (9, 0, 4)] {
        let row = OutboxRow { delay_ms: Some(5_000), age: s(age), ..OutboxRow::default() };
        assert_eq!(due_of(&row, NOW), Some((Due::After(s(left)), s(past))));
    }
    assert_eq!(later(Due::After(s(5)), s(2)), Due::After(s(3)), "it goes by while others are put");
    assert_eq!(later(Due::At(NOW), s(2)), Due::At(NOW));
}
