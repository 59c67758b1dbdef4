//! The table of outcomes shared by the clients of all languages, compared with this crate's readers.

use delayq_core::id::Topic;
use delayq_core::message::Message;
use delayq_core::reply::Value as Answer;
use delayq_core::script::Verb;
use delayq_core::time::UnixMillis;
use delayq_core::verbs::cancel::{self, CancelOutcome};
use delayq_core::verbs::put::{self, PutItem, PutOutcome};
use delayq_core::verbs::replay;
use delayq_core::verbs::reschedule::{self, RescheduleOutcome};
use delayq_core::verbs::settle::{self, Settled};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

const VERBS: [Verb; 8] = [
    Verb::Put,
    Verb::Cancel,
    Verb::Reschedule,
    Verb::Extend,
    Verb::Ack,
    Verb::Release,
    Verb::Bury,
    Verb::Replay,
];

fn table() -> Vec<Value> {
    let path = format!("{}/../../tests/vectors/outcomes.json", env!("CARGO_MANIFEST_DIR"));
    let file: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    file["outcomes"].as_array().unwrap().clone()
}

#[test]
fn an_outcome_is_what_the_table_of_all_clients_says() {
    for row in table() {
        let mut said = row.as_object().unwrap().clone();
        let answer = said.remove("answer").unwrap();
        let verb = VERBS.into_iter().find(|verb| verb.name() == said["verb"]).unwrap();
        let mut read = outcome(verb, answer.as_str().unwrap());
        read.insert("verb".to_owned(), json!(verb.name()));
        assert_eq!(Value::Object(read), Value::Object(said), "{verb:?} {answer}");
    }
}

#[test]
fn the_table_has_every_answer_that_the_scripts_promise() {
    let mut known = BTreeSet::new();
    for row in table() {
        let answer = row["answer"].as_str().unwrap();
        let first = answer.split(' ').next().unwrap();
        let first = if first.starts_with(|c: char| c.is_ascii_digit()) { "<lease" } else { first };
        known.insert((row["verb"].as_str().unwrap().to_owned(), first.to_owned()));
    }
    for verb in VERBS {
        for word in promised(verb) {
            assert!(
                known.contains(&(verb.name().to_owned(), word.clone())),
                "{verb:?} {word} is not in outcomes.json"
            );
        }
    }
}

/// The first words of the answers in a script's header, except `moved`, which never reaches a caller.
fn promised(verb: Verb) -> Vec<String> {
    let path = format!("{}/../../lua/{}.lua", env!("CARGO_MANIFEST_DIR"), verb.name());
    let script = std::fs::read_to_string(path).unwrap();
    let (_, returns) = script.split_once("one answer a message:").unwrap();
    let (returns, _) = returns.split_once("-- COST").unwrap();
    let mut plain = String::new();
    let mut depth = 0;
    for c in returns.replace("\n--", " ").chars() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ if depth == 0 => plain.push(c),
            _ => {}
        }
    }
    let answers = plain.split(';').next().unwrap().split('|');
    let words = answers.filter_map(|answer| answer.split_whitespace().next().map(str::to_owned));
    words.filter(|word| word != "moved").collect()
}

fn outcome(verb: Verb, answer: &str) -> Map<String, Value> {
    let text = Answer::Bytes(answer.as_bytes().to_vec());
    let one = Answer::Array(vec![text.clone()]);
    let said = match verb {
        // Answers to an ack that puts.
        Verb::Put if ["cancelled", "expired"].contains(&answer) => {
            let reply = Answer::Array(vec![Answer::Number(1_000), text]);
            of_settled(put::read_acks(reply, 1).unwrap().remove(0))
        }
        Verb::Put => of_put(Answer::Array(vec![Answer::Number(1_000), text])),
        Verb::Cancel => of_cancel(cancel::read(one, 1).unwrap().remove(0)),
        Verb::Reschedule => of_reschedule(reschedule::read(one, 1).unwrap().remove(0)),
        Verb::Replay => of_replay(one, answer),
        _ => of_settled(settle::read(verb, one, 1).unwrap().remove(0)),
    };
    said.as_object().unwrap().clone()
}

fn ms(time: UnixMillis) -> Value {
    json!(time.to_string().parse::<u64>().unwrap())
}

fn of_put(reply: Answer) -> Value {
    let message = Message::new(Topic::new("orders").unwrap(), "x");
    let item = PutItem { message: &message, earlier: false, first_try: None };
    let outcome = put::read(reply, &[item]).unwrap().remove(0).unwrap();
    let accepted = outcome.is_accepted();
    match outcome {
        PutOutcome::Stored(_) => json!({"word": "stored", "accepted": accepted}),
        PutOutcome::Ready(_) => json!({"word": "ready", "accepted": accepted}),
        PutOutcome::Again { state, old, due } => {
            let state = state.word();
            json!({"word": "again", "accepted": accepted, "state": state, "old_ms": ms(old), "time_ms": ms(due)})
        }
        PutOutcome::Exists(state, at) => {
            json!({"word": "exists", "accepted": accepted, "state": state.word(), "time_ms": ms(at)})
        }
        PutOutcome::Conflict(state, at) => {
            json!({"word": "conflict", "accepted": accepted, "state": state.word(), "time_ms": ms(at)})
        }
        PutOutcome::Changed(state, at) => {
            json!({"word": "changed", "accepted": accepted, "state": state.word(), "time_ms": ms(at)})
        }
        PutOutcome::Unknown => json!({"word": "unknown", "accepted": accepted}),
        PutOutcome::Newer => json!({"word": "conflict", "accepted": accepted, "state": "newer"}),
        PutOutcome::Malformed => json!({"word": "conflict", "accepted": accepted, "state": "malformed"}),
        PutOutcome::Leased => json!({"word": "leased", "accepted": accepted}),
        PutOutcome::Stale => json!({"word": "stale", "accepted": accepted}),
        PutOutcome::Refused(why) => json!({"word": "refused", "accepted": accepted, "why": why}),
        PutOutcome::Spooled => unreachable!("no script answers that it is spooled"),
    }
}

fn of_cancel(outcome: CancelOutcome) -> Value {
    let accepted = outcome.is_accepted();
    match outcome {
        CancelOutcome::Cancelled => json!({"word": "cancelled", "accepted": accepted}),
        CancelOutcome::Leased => json!({"word": "leased", "accepted": accepted}),
        CancelOutcome::Dead => json!({"word": "dead", "accepted": accepted}),
        CancelOutcome::Unknown => json!({"word": "unknown", "accepted": accepted}),
        CancelOutcome::Failed(why) => json!({"word": "failed", "accepted": accepted, "why": why}),
        CancelOutcome::Finished(state, at) => {
            json!({"word": "finished", "accepted": accepted, "state": state.word(), "time_ms": ms(at)})
        }
        CancelOutcome::Spooled => unreachable!("no script answers that it is spooled"),
    }
}

fn of_reschedule(outcome: RescheduleOutcome) -> Value {
    let accepted = outcome.is_accepted();
    match outcome {
        RescheduleOutcome::Moved { old, due, ready } => {
            let word = if ready { "ready" } else { "delayed" };
            json!({"word": word, "accepted": accepted, "old_ms": ms(old), "time_ms": ms(due)})
        }
        RescheduleOutcome::Changed(due) => {
            json!({"word": "changed", "accepted": accepted, "time_ms": ms(due)})
        }
        RescheduleOutcome::Leased => json!({"word": "leased", "accepted": accepted}),
        RescheduleOutcome::Dead => json!({"word": "dead", "accepted": accepted}),
        RescheduleOutcome::Unknown => json!({"word": "unknown", "accepted": accepted}),
        RescheduleOutcome::Refused(why) => json!({"word": "refused", "accepted": accepted, "why": why}),
        RescheduleOutcome::Failed(why) => json!({"word": "failed", "accepted": accepted, "why": why}),
        RescheduleOutcome::Finished(state, at) => {
            json!({"word": "finished", "accepted": accepted, "state": state.word(), "time_ms": ms(at)})
        }
        RescheduleOutcome::Spooled => unreachable!("no script answers that it is spooled"),
    }
}

fn of_settled(outcome: Settled) -> Value {
    let accepted = outcome.is_accepted();
    match outcome {
        Settled::Delivered => json!({"word": "delivered", "accepted": accepted}),
        Settled::Delayed(due) => json!({"word": "delayed", "accepted": accepted, "time_ms": ms(due)}),
        // The ready time equals the time of the answer, which this crate omits.
        Settled::Ready => json!({"word": "ready", "accepted": accepted, "time_ms": 1_893_456_000_000_u64}),
        Settled::Buried => json!({"word": "buried", "accepted": accepted}),
        Settled::Cancelled => json!({"word": "cancelled", "accepted": accepted}),
        Settled::MessageExpired => json!({"word": "expired-message", "accepted": accepted}),
        Settled::Extended(end) => json!({"word": "extended", "accepted": accepted, "time_ms": ms(end)}),
        Settled::ExtendedDoomed(end) => {
            json!({"word": "extended", "accepted": accepted, "time_ms": ms(end), "doomed": true})
        }
        Settled::LeaseLost => json!({"word": "expired", "accepted": accepted}),
        Settled::Failed(why) => json!({"word": "failed", "accepted": accepted, "why": why}),
    }
}

/// This crate only counts replays; the rest of each answer is the script's own text.
fn of_replay(reply: Answer, answer: &str) -> Value {
    let replayed = replay::read(reply).unwrap();
    let accepted = replayed.replayed == 1;
    let (word, rest) = answer.split_once(' ').unwrap_or((answer, ""));
    match word {
        "not" => json!({"word": "not-dead", "accepted": accepted, "state": rest.trim_start_matches("dead ")}),
        "refused" | "failed" => {
            json!({"word": word, "accepted": accepted, "why": replayed.kept.into_keys().next().unwrap()})
        }
        "ready" | "delayed" => {
            json!({"word": word, "accepted": accepted, "time_ms": rest.parse::<u64>().unwrap()})
        }
        _ => json!({"word": word, "accepted": accepted}),
    }
}
