//! What waits behind what, and what every process knows of it.

use super::{ids, open, put, reader, topic};
use delayq_core::fate::Fate;
use delayq_core::id::{Group, MessageId};
use delayq_core::message::Message;
use delayq_core::spool::{Spool, SpoolRecord};
use delayq_core::target::Target;
use delayq_core::time::UnixMillis;
use delayq_spool::SpoolReader;
use delayq_tests::folder::Folder;
use std::fs;

#[tokio::test]
async fn many_appends_at_once_are_all_there_and_in_order_for_each_caller() {
    let folder = Folder::new("spool");
    let spool = open(folder.path()).unwrap();
    let callers = (0..50).map(|caller| {
        let spool = spool.clone();
        tokio::spawn(async move {
            for n in 0..20 {
                spool.append(vec![put(&format!("{caller}:{n:02}"), 100)]).await.unwrap();
            }
        })
    });
    for caller in callers.collect::<Vec<_>>() {
        caller.await.unwrap();
    }
    let seen = ids(&reader(folder.path()));
    assert_eq!(seen.len(), 1000);
    for caller in 0..50 {
        let own: Vec<_> = seen.iter().filter(|id| id.starts_with(&format!("{caller}:"))).collect();
        assert!(own.len() == 20 && own.is_sorted(), "{own:?}");
    }
}

#[tokio::test]
async fn a_cancel_waits_only_behind_something_of_its_message() {
    let folder = Folder::new("spool");
    let spool = open(folder.path()).unwrap();
    spool.append(vec![put("a", 10)]).await.unwrap();
    let now = UnixMillis::new(2_000);
    for (id, expected) in [("a", true), ("b", false)] {
        let target = Target::from(MessageId::own(id).unwrap());
        let cancel = SpoolRecord::cancel(&topic(), &target, now);
        assert_eq!(spool.append_behind(&[cancel]).await, [Ok(expected)]);
    }
    let verbs: Vec<_> = reader(folder.path())
        .waiting(0, 9)
        .unwrap()
        .iter()
        .map(|s| s.record.as_ref().unwrap().verb())
        .collect();
    assert_eq!(verbs, ["put", "cancel"]);
}

#[tokio::test]
async fn every_process_sees_that_something_waits_until_nothing_does() {
    let folder = Folder::new("spool");
    let (spool, other) = (open(folder.path()).unwrap(), open(folder.path()).unwrap());
    assert!(!spool.may_hold() && !other.may_hold());
    spool.append(vec![put("a", 10), put("b", 10)]).await.unwrap();
    assert!(spool.may_hold() && other.may_hold());
    let mut reader = reader(folder.path());
    reader.done(&[1]).unwrap();
    assert!(other.may_hold());
    reader.reject(2, "conflict").unwrap();
    assert!(!spool.may_hold() && !other.may_hold());
    assert!(reader.retry(2, false).unwrap() && other.may_hold());
    // After a power cut the flag may be older than the database: the process that opens the spool sets it again.
    fs::write(folder.path().join("waiting.flag"), "0").unwrap();
    assert!(!other.may_hold());
    drop(reader);
    let after = open(folder.path()).unwrap();
    assert!(after.may_hold() && other.may_hold());
}

#[tokio::test]
async fn a_group_is_held_while_a_record_of_one_of_its_messages_waits() {
    let folder = Folder::new("spool");
    let spool = open(folder.path()).unwrap();
    let group = |name: &str| Group::new(name).unwrap();
    let message = Message::new(topic(), "x").group("g").unwrap();
    let message = message.id("a").unwrap();
    spool.append(vec![SpoolRecord::put(&message, Fate::NotApplied, UnixMillis::new(1))]).await.unwrap();
    let mut reader = reader(folder.path());
    for (change, held) in [
        ((|_| ()) as fn(&mut SpoolReader), true),
        (|reader| reader.reject(1, "conflict").unwrap(), false),
        (|reader| assert!(reader.retry(1, false).unwrap()), true),
        (|reader| reader.done(&[1]).unwrap(), false),
    ] {
        change(&mut reader);
        assert_eq!(spool.holds_group(&group("g")).await, Ok(held));
        assert_eq!(spool.holds_group(&group("other")).await, Ok(false));
    }
}
