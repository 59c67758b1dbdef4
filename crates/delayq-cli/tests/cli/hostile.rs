//! Any input for a time, a message or a line of a backup is read or refused, without a panic.

use delayq::UnixMillis;
use delayq_cli::backup_line::{Record, is_record};
use delayq_service::config::{HumanDuration, backoff};
use delayq_service::put_line;
use delayq_service::when::{Here, When, moment};
use delayq_tests::mutation;
use jiff::Zoned;

delayq_tests::try_with_mutations! {
    #[test]
    fn a_mutated_time_is_read_or_refused_with_a_reason() { times_answer(20_000, 1_000_000) }
    #[test]
    fn a_mutated_line_is_read_or_refused_with_a_reason() { lines_answer(20_000, 1_000_000) }
}

const TIMES: [&str; 12] = [
    "2027-06-01T09:00:00.125[Europe/Berlin]",
    "2027-06-01 9:00 +02:00 Europe/Berlin",
    "now",
    "+2h30m",
    "1766000000000",
    "2026-12-24T18:00:00+01:00",
    "2026-12-24T18:00:00[Europe/Berlin]",
    "tomorrow 09:00 Europe/Berlin",
    "monday 08:00 America/New_York",
    "2027-03-28 12:00",
    "23:59:60",
    "9999-12-31T23:59:59.999999999Z",
];
const TIME_PIECES: [&str; 12] =
    ["+", "-", ":", " ", "T", "Z", "[", "99999999999999999999", "-262144-01-01", "1e999", "UTC", "\u{1f4a5}"];

fn times_answer(cases: u64) {
    let mut rng = fastrand::Rng::with_seed(6);
    let here = Here::from("2026-11-20T12:00:00[Europe/Berlin]".parse::<Zoned>().unwrap());
    let mut read = 0;
    for case in 0..cases {
        let seed = rng.choice(TIMES).unwrap();
        let text = mutation::text(&mut rng, seed, &TIME_PIECES);
        match When::parse(&text, &here) {
            Err(why) => assert!(!why.is_empty(), "case {case}: {text:?}"),
            Ok(when) => {
                read += 1;
                let _ = (when.due(false), when.due(true), when.at(UnixMillis::MAX), moment(&text));
            }
        }
        let (span, backoff) = (text.parse::<HumanDuration>(), backoff(&text));
        assert!(
            span.err().is_none_or(|why| !why.is_empty()) && backoff.err().is_none_or(|why| !why.is_empty())
        );
    }
    assert!(read > 0, "no time was read");
}

const LINES: [&str; 3] = [
    r#"{"topic":"orders","id":"order-17","due":"+30m","payload":{"order":17},"headers":{"a":"b"},"group":"g"}"#,
    r#"{"topic":"orders","id":"a","due":1766000000000,"payload_base64":"AAEC","expires":"tomorrow 09:00","max_attempts":3}"#,
    r#"{"topic":"orders","payload":"text","backoff":["1s","5s"],"replace":true}"#,
];
const LINE_PIECES: [&str; 10] =
    ["\"", "{", "}", "[", ",", ":", "null", "-1", "18446744073709551616", "\\ud800"];

fn lines_answer(cases: u64) {
    let mut rng = fastrand::Rng::with_seed(7);
    for case in 0..cases {
        let seed = rng.choice(LINES).unwrap();
        let line = mutation::text(&mut rng, seed, &LINE_PIECES).into_bytes();
        let line = if case % 2 == 0 { line } else { mutation::bytes(&mut rng, &line) };
        if let Err(why) = put_line::parse(&line, None, case % 3 == 0) {
            assert!(!why.is_empty(), "case {case}: {line:?}");
        }
        let _ = (is_record(&line), Record::of_line(&line));
    }
}
