//! The books: waiting, done, rejected, retried and discarded records.

use super::{Notes, cancel_group, ids, of_message, open, put, reader, spooled, topic};
use delayq_core::fate::Fate;
use delayq_core::message::{Due, Message};
use delayq_core::spool::{AnyRecord, Resubmit, Spool, SpoolRecord};
use delayq_core::time::UnixMillis;
use delayq_spool::{Asked, Retried, Settled, SpoolReader, SpoolStats};
use delayq_tests::folder::Folder;
use std::time::{Duration, SystemTime};

#[tokio::test]
async fn the_books_balance_through_done_reject_retry_and_discard() {
    let folder = Folder::new("spool");
    spooled(folder.path(), 10, 10).await;
    let mut reader = reader(folder.path());
    let seqs: Vec<u64> = reader.waiting(0, 10).unwrap().iter().map(|spooled| spooled.seq).collect();
    reader.done(&seqs[..4]).unwrap();
    reader.done(&seqs[..4]).unwrap();
    for seq in &seqs[4..7] {
        reader.reject(*seq, "conflict").unwrap();
        reader.reject(*seq, "conflict").unwrap();
    }
    assert!(reader.retry(seqs[4], false).unwrap() == Retried::Waits && reader.discard(seqs[5]).unwrap());
    assert!(reader.retry(seqs[4], false).unwrap() == Retried::Unknown && !reader.discard(seqs[5]).unwrap());
    let stats = reader.stats().unwrap();
    let expected = SpoolStats { spooled: 10, replayed: 4, rejected: 1, discarded: 1, waiting: 4, ..stats };
    assert_eq!(stats, expected);
    assert!(stats.balances());
    assert_eq!(reader.books().unwrap(), stats, "they say themselves how many wait");
    assert_eq!(reader.rejected(0, 10).unwrap()[0].reason, "conflict");
    assert_eq!(ids(&reader), ["m4", "m7", "m8", "m9"]);
}

#[tokio::test]
async fn a_waiting_record_can_be_discarded_and_is_in_the_books() {
    let folder = Folder::new("spool");
    spooled(folder.path(), 2, 10).await;
    let mut reader = reader(folder.path());
    assert!(reader.discard(1).unwrap() && !reader.discard(1).unwrap() && !reader.discard(9).unwrap());
    assert_eq!(ids(&reader), ["m1"]);
    let other = open(folder.path()).unwrap();
    assert!(other.may_hold() && reader.discard(2).unwrap() && !other.may_hold());
    let stats = reader.stats().unwrap();
    assert!(stats.discarded == 2 && stats.waiting == 0 && stats.balances(), "{stats:?}");
}

#[tokio::test]
async fn a_forced_retry_forgets_that_it_was_tried() {
    let folder = Folder::new("spool");
    let at = UnixMillis::new(1_000);
    let message = Message::new(topic(), "x").id("a").unwrap().group("g").unwrap().first_tried(at);
    let record = SpoolRecord::put(&message, Fate::Unknown, at);
    open(folder.path()).unwrap().append(vec![record]).await.unwrap();
    let mut reader = reader(folder.path());
    let tried = |reader: &SpoolReader| {
        let record = of_message(reader.waiting(0, 1).unwrap().remove(0).record);
        let Resubmit::Put(message) = record.resubmit(at, None) else { panic!("it was a put") };
        message.tried
    };
    for (force, expected) in [(false, Some(at)), (true, None)] {
        reader.reject(1, "stale").unwrap();
        assert_eq!(reader.retry(1, force).unwrap(), Retried::Waits);
        assert_eq!(tried(&reader), expected);
    }
    assert!(reader.stats().unwrap().balances());
    let spool = open(folder.path()).unwrap();
    assert_eq!(spool.append_group(&cancel_group("g"), true).await, Ok(true));
}

#[tokio::test]
async fn a_retry_undoes_nothing_that_came_later_and_was_resubmitted_but_by_force() {
    let folder = Folder::new("spool");
    let spool = open(folder.path()).unwrap();
    let in_group = |id: &str| {
        let message = Message::new(topic(), "x").id(id).unwrap().group("g").unwrap();
        SpoolRecord::put(&message, Fate::NotApplied, UnixMillis::new(1))
    };
    let cancelled = SpoolRecord::cancel(&topic(), &put("a", 1).target, UnixMillis::new(1));
    spool.append(vec![put("a", 1), put("b", 1), in_group("c")]).await.unwrap();
    spool.append_group(&cancel_group("g"), false).await.unwrap();
    spool.append(vec![in_group("d"), cancelled.clone(), cancelled]).await.unwrap();
    let mut reader = reader(folder.path());
    // Records of the messages a, b and c; a change of their group; another message of that group; two cancels of a.
    let rejected = [1, 2, 3, 4, 7].map(|seq| (seq, "for now".to_owned())).to_vec();
    reader.note(&Settled { rejected, done: vec![5, 6], ..Settled::default() }).unwrap();
    let retried = |reader: &mut SpoolReader, seq| reader.retry(seq, false).unwrap();
    let expected = [
        (1, Retried::Overtaken),
        (2, Retried::Waits),
        (3, Retried::Waits),
        (4, Retried::Overtaken),
        (7, Retried::Waits),
    ];
    let overtaken: Vec<bool> = reader.rejected(0, 9).unwrap().iter().map(|found| found.overtaken).collect();
    assert_eq!(overtaken, expected.map(|(_, retried)| retried == Retried::Overtaken));
    for (seq, expected) in expected {
        assert_eq!(retried(&mut reader, seq), expected, "{seq}");
    }
    assert_eq!(reader.retry(4, true).unwrap(), Retried::Waits);
    reader.reject(3, "for now").unwrap();
    reader.done(&[4]).unwrap();
    assert_eq!(retried(&mut reader, 3), Retried::Overtaken, "its group was cancelled");
    assert!(reader.stats().unwrap().balances());
}

#[tokio::test]
async fn each_record_has_an_identity_of_its_own_until_it_waits_again() {
    let folder = Folder::new("spool");
    let spool = open(folder.path()).unwrap();
    spool.append(vec![put("a", 1), put("a", 1)]).await.unwrap();
    let id = |reader: &SpoolReader, n: usize| reader.waiting(0, 9).unwrap()[n].id;
    let past = rusqlite::Connection::open(folder.join("spool.db")).unwrap();
    past.execute("UPDATE waiting SET spooled_ms = spooled_ms - 1000", []).unwrap();
    let mut first = reader(folder.path());
    let before = (id(&first, 0), id(&first, 1));
    assert_ne!(before.0, before.1);
    first.reject(1, "for now").unwrap();
    assert_eq!(first.retry(1, true).unwrap(), Retried::Waits);
    drop(first);
    let then = reader(folder.path());
    assert_ne!(id(&then, 0), before.0);
    assert_eq!(id(&then, 1), before.1);
}

#[tokio::test]
async fn what_may_have_become_of_a_groups_change_is_known_to_the_next_compensator() {
    let folder = Folder::new("spool");
    let spool = open(folder.path()).unwrap();
    spool.append_group(&cancel_group("g"), false).await.unwrap();
    spool.append(vec![put("a", 1)]).await.unwrap();
    for fate in [Fate::Unknown, Fate::NotApplied] {
        let mut first = reader(folder.path());
        first.note_fate(1, fate).unwrap();
        first.note_fate(2, fate).unwrap();
        first.note_fate(9, fate).unwrap();
        drop(first);
        let waiting = reader(folder.path()).waiting(0, 9).unwrap();
        let Ok(AnyRecord::Group(group)) = &waiting[0].record else { panic!("{waiting:?}") };
        assert_eq!((group.fate, group.tried_at > UnixMillis::new(1)), (fate, true));
        assert_eq!(of_message(waiting[1].record.clone()), put("a", 1), "the other write is unchanged");
    }
}

#[tokio::test]
async fn a_change_by_a_producer_is_noticed_and_nothing_else() {
    let folder = Folder::new("spool");
    let spool = open(folder.path()).unwrap();
    let mut reader = reader(folder.path());
    assert!(reader.has_changed().unwrap());
    assert!(!reader.has_changed().unwrap());
    spool.append(vec![put("a", 1)]).await.unwrap();
    assert!(reader.has_changed().unwrap());
    reader.done(&[1]).unwrap();
    assert!(!reader.has_changed().unwrap(), "its own changes are known");
}

#[tokio::test]
async fn a_batch_takes_no_more_than_its_bytes_and_at_least_one_record() {
    let folder = Folder::new("spool");
    spooled(folder.path(), 40, 1 << 20).await;
    assert_eq!(reader(folder.path()).waiting(0, 500).unwrap().len(), 16);
}

#[tokio::test]
#[allow(clippy::disallowed_methods, reason = "a record is dated by the host's clock")]
async fn a_delay_is_not_shortened_by_setting_the_hosts_clock() {
    const HALF_AN_HOUR: u64 = 1_800_000;
    for is_ahead in [true, false] {
        let by = if is_ahead { HALF_AN_HOUR.cast_signed() } else { -HALF_AN_HOUR.cast_signed() };
        let folder = Folder::new("spool");
        // The clock was wrong by this much at the append, and is right now.
        let wrong = |at: UnixMillis| at.set_by(-by);
        let now = UnixMillis::from(SystemTime::now());
        let message = Message::new(topic(), "x").id("a").unwrap().after(Duration::from_secs(3600));
        let record = SpoolRecord::put(&message, Fate::Unknown, wrong(now));
        open(folder.path()).unwrap().append(vec![record]).await.unwrap();
        let reader = reader(folder.path());
        let past = rusqlite::Connection::open(folder.join("spool.db")).unwrap();
        past.execute("UPDATE waiting SET spooled_ms = spooled_ms - ?", [by]).unwrap();
        let spooled = reader.waiting(0, 1).unwrap().remove(0);
        let off = |at: UnixMillis| at.get().abs_diff(now.get());
        let minute = 60_000;
        assert!(off(spooled.spooled_at) < minute, "{spooled:?}");
        let record = of_message(spooled.record);
        assert!(off(record.tried_at) < minute, "{record:?}");
        let Resubmit::Put(message) = record.resubmit(now, None) else { panic!("it was a put") };
        let Due::After(left) = message.due else { panic!("{:?}", message.due) };
        assert!(left > Duration::from_secs(3540) && off(message.tried.unwrap()) < minute, "{message:?}");
    }
}

#[tokio::test]
#[allow(clippy::disallowed_methods, reason = "a record is dated by the host's clock")]
async fn a_delay_is_not_shortened_by_setting_the_hosts_clock_while_the_host_is_booted() {
    for by in [1_800_000, -1_800_000_i64] {
        let folder = Folder::new("spool");
        let now = UnixMillis::from(SystemTime::now());
        let wrong = |at: UnixMillis| at.set_by(-by);
        let message = Message::new(topic(), "x").id("a").unwrap().after(Duration::from_secs(3600));
        let record = SpoolRecord::put(&message, Fate::NotApplied, wrong(now));
        open(folder.path()).unwrap().append(vec![record]).await.unwrap();
        let mut before = reader(folder.path());
        before.hear(Asked::now().answered(now).unwrap());
        before.note_clock().unwrap();
        drop(before);
        // Appended in another boot, which began an hour before this one.
        let past = rusqlite::Connection::open(folder.join("spool.db")).unwrap();
        past.execute(
            "UPDATE waiting SET spooled_ms = spooled_ms - ?, boot = 7, up_ms = up_ms + 3600000",
            [by],
        )
        .unwrap();
        past.execute("INSERT INTO clocks SELECT 7, redis_ms - 3600000 FROM clocks", []).unwrap();
        let spooled = reader(folder.path()).waiting(0, 1).unwrap().remove(0);
        let Resubmit::Put(message) = of_message(spooled.record).resubmit(now, None) else {
            panic!("it was a put")
        };
        let Due::After(left) = message.due else { panic!("{:?}", message.due) };
        let left = left.as_secs();
        assert!((3540..=3602).contains(&left), "{left} s of an hour are left, {by}");
    }
}
