//! Any content of a record, even behind a matching checksum, is read or refused, without a panic.

use crate::encoding::{check, decode, encode};
use delayq_core::backoff::Backoff;
use delayq_core::fate::Fate;
use delayq_core::id::{Group, Topic};
use delayq_core::message::{Due, Message};
use delayq_core::spool::{AnyRecord, GroupChange, GroupRecord, SpoolRecord};
use delayq_core::time::{Shift, UnixMillis};
use delayq_core::verbs::reschedule::Reschedule;
use delayq_tests::mutation;
use std::time::Duration;

delayq_tests::try_with_mutations! {
    #[test]
    fn a_mutated_record_is_refused_or_read_as_what_it_would_be_written_as() { records_answer(20_000, 1_500_000) }
}

fn records() -> Vec<Vec<u8>> {
    let message =
        Message::new(Topic::new("orders").unwrap(), "payload").id("order-17").unwrap().group("g").unwrap();
    let message = message.header("traceparent", "00-1").after(Duration::from_secs(60)).max_attempts(3);
    let message = message.backoff(Backoff::Fixed(Duration::from_secs(1)));
    let now = UnixMillis::new(1_763_697_600_000);
    let put = SpoolRecord::put(&message, Fate::Unknown, now);
    let change = |change| SpoolRecord::reschedule(&put.topic, &put.target, change, now);
    let records = [
        put.clone(),
        SpoolRecord::put(&message.debounce(Duration::from_secs(90)).keep_content(), Fate::Unknown, now),
        SpoolRecord::cancel(&put.topic, &put.target, now),
        change(Reschedule::To(Due::At(now))),
        change(Reschedule::ToIfDue(Due::After(Duration::from_secs(1)), now)),
        change(Reschedule::By(Shift::Later(Duration::from_secs(5)), now)),
    ];
    let group = Group::new("g").unwrap();
    let shift = GroupChange::Shift { by: Shift::Later(Duration::from_secs(5)), token: "storm-17".to_owned() };
    let groups = [GroupChange::Cancel, shift].map(|change| {
        AnyRecord::Group(GroupRecord {
            group: group.clone(),
            topic: None,
            tried_at: now,
            fate: Fate::Unknown,
            change,
        })
    });
    records.into_iter().map(AnyRecord::Message).chain(groups).map(|record| encode(&record)).collect()
}

fn records_answer(cases: u64) {
    let mut rng = fastrand::Rng::with_seed(5);
    let seeds = records();
    let mut read = 0;
    for case in 0..cases {
        let seed = rng.choice(&seeds).unwrap();
        let mut bytes = mutation::bytes(&mut rng, seed);
        if let Some((head, rest)) = bytes.split_at_mut_checked(5) {
            head[1..].copy_from_slice(&crc32fast::hash(rest).to_be_bytes());
        }
        let Ok(record) = decode(&bytes) else { continue };
        read += 1;
        let of_message = record.message();
        let _ = of_message
            .map(|of| of.resubmit(UnixMillis::new(rng.u64(..)), Some(UnixMillis::new(rng.u64(..)))));
        if of_message.is_none_or(|of| check(of).is_ok()) {
            assert_eq!(decode(&encode(&record)), Ok(record), "case {case}: {bytes:02x?}");
        }
    }
    assert!(read > cases / 100, "nearly nothing was read: only the checksum was tried");
}
