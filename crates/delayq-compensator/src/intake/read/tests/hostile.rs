//! Any record is read or refused with a reason, and every read of the same record gives the same result.

use super::{AT, NOW, read};
use crate::intake::record::BrokerRecord;
use delayq::{Topic, UnixMillis};
use delayq_tests::mutation;
use fastrand::Rng;

delayq_tests::try_with_mutations! {
    #[test]
    fn a_mutated_record_of_an_intake_is_read_or_refused_with_a_reason() { records_answer(20_000, 1_500_000) }
}

const HEADERS: [(&str, &str); 21] = [
    ("delayq-topic", "orders"),
    ("delayq-id", "order-17"),
    ("delayq-verb", "put"),
    ("delayq-verb", "reschedule"),
    ("delayq-group", "user-5"),
    ("delayq-due", "1766000060000"),
    ("delayq-due", "2026-12-24T18:00:00+01:00"),
    ("delayq-delay", "1h30m"),
    ("delayq-expires", "4102444800000"),
    ("delayq-max-attempts", "5"),
    ("delayq-jitter", "5m"),
    ("delayq-backoff", "1s..10m"),
    ("delayq-replace", "true"),
    ("delayq-expected", "1766000000000"),
    ("delayq-by", "-5m"),
    ("ce_specversion", "1.0"),
    ("ce_id", "e1"),
    ("ce-delayqdelay", "5s"),
    ("content-type", "application/cloudevents+json; charset=utf-8"),
    ("content-type", "text/plain"),
    ("x-region", "eu"),
];
const PIECES: [&str; 12] =
    ["delayq-", "ce_", "-", "+", ":", "9999999999999999999", "ms", "h", "..", "\u{0}", "\u{1f4a5}", "T"];
const DOCUMENT: &[u8] =
    br#"{"specversion":"1.0","id":"e1","type":"orders","data":{"a":[1,"\u00e9"]},"delayqdelay":"5s"}"#;

fn records_answer(cases: u64) {
    let mut rng = Rng::with_seed(16);
    let default = Topic::new("default").unwrap();
    let mut taken = 0;
    for case in 0..cases {
        let record = record(&mut rng);
        let topic = rng.bool().then_some(&default);
        let answer = read(&record, topic, NOW);
        assert_eq!(read(&record, topic, NOW), answer, "case {case}: {record:?}");
        match answer {
            Ok(_) => taken += 1,
            Err(reason) => assert!(!reason.is_empty(), "case {case}: {record:?}"),
        }
    }
    assert!(taken > cases / 100, "nearly no record was read");
}

fn record(rng: &mut Rng) -> BrokerRecord {
    let mut headers = Vec::new();
    for _ in 0..rng.usize(0..6) {
        let (name, value) = HEADERS[rng.usize(..HEADERS.len())];
        let (mut name, mut value) = (name.to_owned(), value.as_bytes().to_vec());
        match rng.u8(..6) {
            0 => name = mutation::text(rng, &name, &PIECES),
            1 => value = mutation::bytes(rng, &value),
            2 => value = mutation::text(rng, &String::from_utf8_lossy(&value), &PIECES).into_bytes(),
            _ => {}
        }
        headers.push((name, value));
    }
    let body = if rng.bool() { DOCUMENT.to_vec() } else { mutation::bytes(rng, DOCUMENT) };
    let at = [None, Some(AT), Some(UnixMillis::new(rng.u64(..)))][rng.usize(..3)];
    let id = rng.bool().then(|| mutation::text(rng, "own-1", &PIECES));
    BrokerRecord { headers, body, at, id, is_repeat: rng.bool(), ..BrokerRecord::default() }
}
