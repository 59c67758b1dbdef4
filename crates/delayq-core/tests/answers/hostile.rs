//! Arbitrary bytes from Redis, a peer or a damaged disk are read or refused, and never cause a panic.
//!
//! A failure shows the input.

use delayq_core::backoff::Backoff;
use delayq_core::envelope::Envelope;
use delayq_core::id::{Namespace, Topic};
use delayq_core::keys::Keys;
use delayq_core::message::Message;
use delayq_core::reply::Value;
use delayq_core::script::Verb;
use delayq_core::shard::ShardId;
use delayq_core::target::Target;
use delayq_core::verbs;
use delayq_core::verbs::reserve::{Receipt, ReserveRequest};
use delayq_tests::mutation;
use fastrand::Rng;
use std::time::Duration;

delayq_tests::try_with_mutations! {
    #[test]
    fn a_mutated_envelope_is_refused_or_read_as_what_it_would_be_written_as() { envelopes_answer(20_000, 1_500_000) }
    #[test]
    fn any_answer_of_a_script_is_read_or_refused() { replies_answer(20_000, 6_000_000) }
    #[test]
    fn any_wake_message_receipt_and_id_is_read_or_refused() { names_answer(20_000, 1_500_000) }
}

fn envelopes() -> Vec<Vec<u8>> {
    let bare = Message::new(Topic::new("orders").unwrap(), "payload");
    let full = Message::new(Topic::new("orders").unwrap(), vec![7; 300])
        .id("order-17")
        .unwrap()
        .group("user-5")
        .unwrap()
        .header("traceparent", "00-1")
        .max_attempts(3)
        .backoff(Backoff::Exponential { first: Duration::from_secs(1), longest: Duration::from_secs(60) });
    let mut dead = Envelope::of(&full, b"x".to_vec(), false);
    dead.reason = Some("it was refused".to_owned());
    vec![
        Envelope::of(&bare, b"payload".to_vec(), false).encode(),
        Envelope::of(&full, vec![1; 40], true).encode(),
        dead.encode(),
    ]
}

fn envelopes_answer(cases: u64) {
    let mut rng = Rng::with_seed(1);
    let seeds = envelopes();
    for case in 0..cases {
        let seed = rng.choice(&seeds).unwrap();
        let bytes = mutation::bytes(&mut rng, seed);
        if let Ok(read) = Envelope::decode(&bytes) {
            let again = Envelope::decode(&read.encode());
            assert_eq!(again.as_ref(), Ok(&read), "case {case}: {bytes:02x?}");
        }
    }
}

fn value(rng: &mut Rng, depth: u8) -> Value {
    const WORDS: [&str; 16] = [
        "",
        "0",
        "1",
        "-1",
        "18446744073709551616",
        "stored",
        "exists",
        "ready delayed 5",
        "pumped",
        "more",
        "mine",
        "cancelled",
        "released 5",
        "9007199254740993",
        "NaN",
        "\u{1f4a5}",
    ];
    match rng.u8(..if depth == 0 { 7 } else { 9 }) {
        0 => Value::Nil,
        1 => Value::Number(rng.i64(..)),
        2 => Value::Number(rng.i64(-2..100)),
        3 => Value::Other("a map".to_owned()),
        4 => Value::Bytes((0..rng.usize(..40)).map(|_| rng.u8(..)).collect()),
        5 | 6 => Value::Bytes(rng.choice(WORDS).unwrap().as_bytes().to_vec()),
        _ => Value::Array((0..rng.usize(..14)).map(|_| value(rng, depth - 1)).collect()),
    }
}

fn pumped(rng: &mut Rng) -> Value {
    const ANSWER: [&str; 11] =
        ["pumped", "1763697600000000", "1763697600000", "3", "0", "0", "0", "0", "0", "1763697599999", "3"];
    let mut elements = ANSWER.map(|text| Value::Bytes(text.as_bytes().to_vec()));
    let at = rng.usize(..elements.len());
    elements[at] = value(rng, 1);
    Value::Array(elements.into())
}

fn replies_answer(cases: u64) {
    let mut rng = Rng::with_seed(2);
    let mut read = 0;
    let (shard, topic) = (ShardId::new(7), Topic::new("orders").unwrap());
    let request = ReserveRequest { topics: vec![topic.clone()], most: 10, max_bytes: 0, lease: None };
    for case in 0..cases {
        let reply = Value::Array((0..rng.usize(..16)).map(|_| value(&mut rng, 2)).collect());
        let (count, reply) = (rng.usize(..5), || reply.clone());
        match case % 24 {
            0 => drop(verbs::reserve::read(shard, &request, reply())),
            1 => read += u64::from(verbs::pump::read(pumped(&mut rng)).is_ok()),
            2 => drop(verbs::claim::read(reply())),
            3 => drop(verbs::cancel::read(reply(), count)),
            4 => drop(verbs::reschedule::read(reply(), count)),
            5 => drop(verbs::settle::read(Verb::Ack, reply(), count)),
            6 => drop(verbs::settle::read(Verb::Release, reply(), count)),
            7 => drop(verbs::overview::read(reply())),
            8 => drop(verbs::histogram::read(reply())),
            9 => drop(verbs::hold::read(reply())),
            10 => drop(verbs::purge::read(reply())),
            11 => drop(verbs::dictionary::read(reply())),
            12 => drop(verbs::forget::read(reply())),
            13 => drop(verbs::forget::read_quiet(reply())),
            14 => drop(verbs::settings::read(reply())),
            15 => drop(verbs::replay::read(reply())),
            16 => drop(verbs::repair::read(reply(), count)),
            17 => drop(verbs::list::read_topic(reply(), shard, &topic)),
            18 => drop(verbs::list::read_group(reply(), shard)),
            19 => drop(verbs::group::read_cancel(reply())),
            20 => drop(verbs::group::read_shift(reply())),
            21 => drop(verbs::audit::read_messages(reply())),
            22 => drop(verbs::audit::read_indexes(reply())),
            23 => drop(verbs::deployment::read_asked(reply(), shard)),
            _ => drop(verbs::probe::read(reply())),
        }
    }
    assert!(read > 0, "no pump's answer was taken: nothing behind its first fields was tried");
}

fn names_answer(cases: u64) {
    let mut rng = Rng::with_seed(3);
    let keys = Keys::new(Namespace::default());
    for _ in 0..cases {
        let channel = mutation::bytes(&mut rng, b"{dq:17}:wake");
        let _ = keys.parse(&channel);
        let _ = keys.parse_channel(&String::from_utf8_lossy(&channel));
        let receipt = mutation::bytes(&mut rng, b"1:order-17\0\0\0\x05");
        let _ = format!("{:?}", Receipt::new(ShardId::new(1), receipt.clone()));
        let _ = Target::from_stored(&receipt);
        let _ = Topic::new(String::from_utf8_lossy(&receipt));
    }
}
