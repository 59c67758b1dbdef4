//! The checker reports every seeded fault, and nothing in a good run.

use super::*;

const DUE_MS: u64 = 1_000_000;

fn delivery(id: &str, payload: &[u8], delivery: u32, ready_ms: u64) -> Event {
    let sha256 = crate::history::sha256_hex(payload);
    Event::Delivery { destination: "out".to_owned(), id: id.to_owned(), sha256, delivery, ready_ms }
}

/// A run with an example of each: delivered, cancelled, rescheduled, refused, unknown.
fn good() -> History {
    let history = History::new();
    for (id, answer) in [
        ("delivered", Answer::Ok),
        ("cancelled", Answer::Ok),
        ("moved", Answer::Ok),
        ("refused", Answer::Refused),
        ("unknown", Answer::Unknown),
    ] {
        history.put(id, DUE_MS, id.as_bytes(), answer);
    }
    history.cancel("cancelled", Answer::Ok);
    history.reschedule("moved", DUE_MS + 500, Answer::Ok);
    history.record(delivery("delivered", b"delivered", 1, DUE_MS));
    history.record(delivery("moved", b"moved", 1, DUE_MS + 500));
    history
}

fn permit() -> Permit {
    Permit { late: Some(Duration::from_millis(100)), ..Permit::default() }
}

fn broken(history: &History) -> Vec<u8> {
    let mut numbers: Vec<u8> = check(history, &permit()).iter().map(|v| v.invariant).collect();
    numbers.dedup();
    numbers
}

#[test]
fn a_good_run_has_no_violation() {
    assert_eq!(check(&good(), &permit()), []);
}

#[test]
fn an_unknown_put_may_be_delivered_or_not() {
    let history = good();
    history.record(delivery("unknown", b"unknown", 1, DUE_MS));
    assert_eq!(check(&history, &permit()), []);
}

#[test]
fn each_seeded_fault_is_found_under_its_number() {
    type Seed = (&'static str, u8, fn(&History));
    let seeds: &[Seed] = &[
        ("one dropped", 1, |h| h.put("lost", DUE_MS, b"", Answer::Ok)),
        ("dead without a fault", 1, |h| {
            h.put("d", DUE_MS, b"", Answer::Ok);
            h.record(Event::Dead { id: "d".to_owned(), reason: "no reason".to_owned() });
        }),
        ("from nowhere", 2, |h| h.record(delivery("alien", b"", 1, DUE_MS))),
        ("another payload", 2, |h| h.record(delivery("unknown", b"other", 1, DUE_MS))),
        ("ok answered to a refusal's message", 3, |h| h.record(delivery("refused", b"refused", 1, DUE_MS))),
        ("10 ms early", 4, |h| h.record(delivery("unknown", b"unknown", 1, DUE_MS - 10))),
        ("early after a move", 4, |h| {
            h.put("m", DUE_MS, b"m", Answer::Ok);
            h.reschedule("m", DUE_MS + 50, Answer::Ok);
            h.record(delivery("m", b"m", 1, DUE_MS));
        }),
        ("a cancelled one", 5, |h| h.record(delivery("cancelled", b"cancelled", 1, DUE_MS))),
        ("too late, never seen", 5, |h| h.cancel("unknown", Answer::Refused)),
        ("pushed twice", 6, |h| h.record(delivery("delivered", b"delivered", 2, DUE_MS))),
        ("late", 7, |h| h.record(delivery("unknown", b"unknown", 1, DUE_MS + 101))),
        ("a fenced batch that moved", 8, |h| {
            h.record(Event::Pump { shard: 1, epoch: 1, fenced: true, moved: 1 });
        }),
        ("an old owner that moved", 8, |h| {
            h.record(Event::Pump { shard: 1, epoch: 2, fenced: false, moved: 0 });
            h.record(Event::Pump { shard: 1, epoch: 1, fenced: false, moved: 1 });
        }),
    ];
    for (name, number, seed) in seeds {
        let history = good();
        seed(&history);
        assert_eq!(broken(&history), [*number], "{name}");
    }
}

#[test]
fn permitted_duplicates_must_have_rising_numbers() {
    let permit = Permit { duplicates: 1, ..permit() };
    for (number, violations) in [(2, 0), (1, 1)] {
        let history = good();
        history.record(delivery("delivered", b"delivered", number, DUE_MS));
        assert_eq!(check(&history, &permit).len(), violations);
    }
}

#[test]
fn a_dead_letter_of_a_permitted_reason_is_not_lost() {
    let history = good();
    history.put("d", DUE_MS, b"", Answer::Ok);
    history.record(Event::Dead { id: "d".to_owned(), reason: "rejected: too large".to_owned() });
    let permit = Permit { dead_reasons: vec!["too large".to_owned()], ..permit() };
    assert_eq!(check(&history, &permit), []);
}

#[test]
fn books_that_lost_one_do_not_balance() {
    let books = Books { accepted: 5, delivered: 2, cancelled: 1, pending: 2, ..Books::default() };
    assert_eq!(books.violation(), None);
    assert_eq!(Books { delivered: 1, ..books }.violation().map(|v| v.invariant), Some(9));
}

#[test]
fn a_leaked_body_is_left_over_and_the_registry_is_not() {
    let registry = ["{dq:0}:meta", "{dq:0}:stats", "{dq:0}:t:12", "{dq:0}:dictionaries"].map(str::to_owned);
    assert_eq!(leftovers(&registry), []);
    let leaked = ["{dq:0}:m:1:abc", "{dq:0}:g:}:meta", "{dq:0}:alarms"].map(str::to_owned);
    assert_eq!(leftovers(&leaked).len(), 3);
}

#[test]
fn a_panic_and_a_secret_are_found_in_output() {
    let output = "started\nthread 'main' panicked at x\nurl redis://:hunter2@h/\n";
    assert_eq!(check_output(output, &["hunter2"]).len(), 2);
}
