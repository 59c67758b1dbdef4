//! The order of waiting records, and each process's knowledge of that order.

use super::{Notes, cancel_group, ids, open, put, reader, topic};
use delayq_core::id::{Group, MessageId};
use delayq_core::shard::ShardId;
use delayq_core::spool::{Spool, SpoolRecord};
use delayq_core::target::Target;
use delayq_core::time::UnixMillis;
use delayq_spool::{Retried, SpoolReader};
use delayq_tests::deadline::{SHORT, within};
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
async fn nothing_overtakes_what_another_process_has_appended_or_let_wait_again() {
    let folder = Folder::new("spool");
    let (one, other) = (open(folder.path()).unwrap(), open(folder.path()).unwrap());
    let mut reader = reader(folder.path());
    // Each spool asks before, so that each has to learn of later records.
    for spool in [&one, &other] {
        assert_eq!(spool.append_behind(&[put("a", 10)]).await, [Ok(false)]);
    }
    one.append(vec![put("a", 10)]).await.unwrap();
    assert_eq!(other.append_behind(&[put("a", 10), put("b", 10)]).await, [Ok(true), Ok(false)]);
    assert_eq!(one.append_behind(&[put("b", 10)]).await, [Ok(false)]);
    reader.done(&[2]).unwrap();
    assert_eq!(one.append_behind(&[put("b", 10), put("a", 10)]).await, [Ok(false), Ok(true)]);
    reader.done(&[3]).unwrap();
    reader.reject(1, "conflict").unwrap();
    for spool in [&one, &other] {
        assert_eq!(spool.append_behind(&[put("a", 10)]).await, [Ok(false)]);
    }
    assert_eq!(reader.retry(1, false).unwrap(), Retried::Waits);
    for spool in [&one, &other] {
        assert_eq!(spool.append_behind(&[put("a", 10), put("b", 10)]).await, [Ok(true), Ok(false)]);
    }
    reader.done(&[1, 4, 5]).unwrap();
    for spool in [&one, &other] {
        assert_eq!(spool.append_behind(&[put("a", 10)]).await, [Ok(false)]);
    }
}

#[tokio::test]
async fn of_records_that_are_appended_together_each_is_known_by_its_own_number() {
    let folder = Folder::new("spool");
    let spool = open(folder.path()).unwrap();
    let group = |n: u64| format!("g{n}");
    let record = |n: u64| cancel(&format!("m{n}"), n.is_multiple_of(2).then(|| group(n)).as_deref());
    spool.append((1..=75).map(record).collect()).await.unwrap();
    let mut reader = reader(folder.path());
    for n in [2, 32, 34, 64, 66, 72, 74] {
        assert_eq!(spool.append_behind(&[record(n - 1)]).await, [Ok(true)], "{n}");
        assert_eq!(spool.append_group(&cancel_group(&group(n)), true).await, Ok(true), "{n}");
        let appended = reader.waiting(75, 9).unwrap();
        reader.done(&appended.iter().map(|spooled| spooled.seq).collect::<Vec<_>>()).unwrap();
        reader.done(&[n - 1, n]).unwrap();
        assert_eq!(spool.append_behind(&[record(n - 1)]).await, [Ok(false)], "{n}");
        assert_eq!(spool.append_group(&cancel_group(&group(n)), true).await, Ok(false), "{n}");
    }
}

#[tokio::test]
async fn what_goes_behind_another_record_is_not_overtaken_by_the_next_one_of_its_call() {
    let folder = Folder::new("spool");
    let spool = open(folder.path()).unwrap();
    assert_eq!(spool.append_group(&cancel_group("g"), false).await, Ok(true));
    // The second record waits only for a record of the same message.
    let first = cancel("~1", Some("g"));
    let target = Target { group: Some(Group::new("other").unwrap()), ..first.target.clone() };
    let records = [first.clone(), SpoolRecord { target, ..first }, cancel("b", None)];
    assert_eq!(spool.append_behind(&records).await, [Ok(true), Ok(true), Ok(false)]);
}

#[tokio::test]
async fn a_write_of_the_same_id_in_another_group_waits_for_nothing() {
    let folder = Folder::new("spool");
    let spool = open(folder.path()).unwrap();
    spool.append(vec![cancel("a", Some("g"))]).await.unwrap();
    let records = [cancel("a", None), cancel("a", Some("other")), cancel("a", Some("g"))];
    assert_eq!(spool.append_behind(&records).await, [Ok(false), Ok(false), Ok(true)]);
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
    assert_eq!(reader.retry(2, false).unwrap(), Retried::Waits);
    assert!(other.may_hold());
    // After a power cut the flag may be older than the database: the process that opens the spool sets the flag again.
    fs::write(folder.path().join("waiting.flag"), "0").unwrap();
    assert!(!other.may_hold());
    drop(reader);
    let after = open(folder.path()).unwrap();
    assert!(after.may_hold() && other.may_hold());
}

/// A cancel of `id`; `~` begins a generated id.
fn cancel(id: &str, group: Option<&str>) -> SpoolRecord {
    let id = match id.strip_prefix('~') {
        Some(n) => MessageId::generate(ShardId::new(1), n.parse().unwrap()),
        None => MessageId::own(id).unwrap(),
    };
    let target = Target { id, group: group.map(|group| Group::new(group).unwrap()) };
    SpoolRecord::cancel(&topic(), &target, UnixMillis::new(1))
}

#[tokio::test]
async fn a_change_of_a_group_waits_behind_its_messages_until_none_of_them_waits() {
    let folder = Folder::new("spool");
    let spool = open(folder.path()).unwrap();
    spool.append(vec![cancel("a", Some("g"))]).await.unwrap();
    let mut reader = reader(folder.path());
    for (change, waits) in [
        ((|_| ()) as fn(&mut SpoolReader), true),
        (|reader| reader.reject(1, "conflict").unwrap(), false),
        (|reader| assert_eq!(reader.retry(1, false).unwrap(), Retried::Waits), true),
        (|reader| reader.done(&[1]).unwrap(), false),
    ] {
        change(&mut reader);
        assert_eq!(spool.append_group(&cancel_group("other"), true).await, Ok(false));
        assert_eq!(spool.append_group(&cancel_group("g"), true).await, Ok(waits));
        // The appended record must not hold up the next.
        let appended = reader.waiting(1, 9).unwrap();
        reader.done(&appended.iter().map(|spooled| spooled.seq).collect::<Vec<_>>()).unwrap();
    }
}

#[tokio::test]
async fn nothing_overtakes_a_change_of_its_group_and_what_may_be_of_any_group_waits_with_all() {
    let folder = Folder::new("spool");
    let spool = open(folder.path()).unwrap();
    assert_eq!(spool.append_group(&cancel_group("g"), false).await, Ok(true));
    let records = [
        (cancel("a", Some("g")), true),
        (cancel("~1", Some("g")), true),
        (cancel("~2", None), true),
        (cancel("b", Some("other")), false),
        (cancel("c", None), false),
    ];
    let (records, expected): (Vec<_>, Vec<_>) = records.into_iter().unzip();
    assert_eq!(spool.append_behind(&records).await, expected.into_iter().map(Ok).collect::<Vec<_>>());
    // A generated id without its group waits: a change of any group goes behind that record.
    assert_eq!(spool.append_group(&cancel_group("other"), true).await, Ok(true));
    assert_eq!(spool.append_group(&cancel_group("g"), true).await, Ok(true));

    let mut reader = reader(folder.path());
    let (numbers, verbs): (Vec<u64>, Vec<_>) = reader
        .waiting(0, 9)
        .unwrap()
        .into_iter()
        .map(|spooled| (spooled.seq, spooled.record.unwrap().verb()))
        .unzip();
    let expected = ["cancel_group", "cancel", "cancel", "cancel", "cancel_group", "cancel_group"];
    assert_eq!(verbs, expected);
    reader.done(&numbers).unwrap();
    assert_eq!(spool.append_behind(&records).await, vec![Ok(false); 5]);
    assert_eq!(spool.append_group(&cancel_group("g"), true).await, Ok(false));
}

#[tokio::test]
async fn an_old_record_that_rests_does_not_slow_down_what_comes_long_behind_it() {
    let folder = Folder::new("spool");
    let spool = open(folder.path()).unwrap();
    spool.append(vec![put("old", 10)]).await.unwrap();
    let since = rusqlite::Connection::open(folder.join("spool.db")).unwrap();
    since.execute_batch("UPDATE sqlite_sequence SET seq = 1 << 60").unwrap();
    spool.append(vec![put("new", 10)]).await.unwrap();
    let behind = [put("new", 10), put("old", 10), put("other", 10)];
    let behind = within("an answer", SHORT, spool.append_behind(&behind)).await;
    assert_eq!(behind, [Ok(true), Ok(true), Ok(false)]);
}

#[tokio::test]
async fn a_commit_that_fails_leaves_no_process_to_ask_for_nothing() {
    let folder = Folder::new("spool");
    let (spool, other) = (open(folder.path()).unwrap(), open(folder.path()).unwrap());
    let fault = rusqlite::Connection::open(folder.join("spool.db")).unwrap();
    let set = |sql| fault.execute_batch(sql).unwrap();
    set("CREATE TRIGGER fault BEFORE UPDATE ON books BEGIN SELECT RAISE(ABORT, 'a fault'); END");
    spool.append(vec![put("a", 10)]).await.unwrap_err();
    assert!(!spool.may_hold() && !other.may_hold());
    set("DROP TRIGGER fault");
    spool.append(vec![put("a", 10)]).await.unwrap();
    set("CREATE TRIGGER fault BEFORE UPDATE ON books BEGIN SELECT RAISE(ABORT, 'a fault'); END");
    spool.append(vec![put("b", 10)]).await.unwrap_err();
    assert!(spool.may_hold() && other.may_hold(), "another record waits");
}
