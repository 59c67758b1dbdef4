//! The books: what waits, what was done, set aside, retried and discarded.

use super::{Notes, cancel_group, ids, of_message, open, put, reader, spooled, topic};
use delayq_core::fate::Fate;
use delayq_core::message::{Due, Message};
use delayq_core::spool::{Resubmit, Spool, SpoolRecord};
use delayq_core::time::UnixMillis;
use delayq_spool::{SpoolReader, SpoolStats};
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
    assert!(reader.retry(seqs[4], false).unwrap() && reader.discard(seqs[5]).unwrap());
    assert!(!reader.retry(seqs[4], false).unwrap() && !reader.discard(seqs[5]).unwrap());
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
        assert!(reader.retry(1, force).unwrap());
        assert_eq!(tried(&reader), expected);
    }
    assert!(reader.stats().unwrap().balances());
    let spool = open(folder.path()).unwrap();
    assert_eq!(spool.append_group(&cancel_group("g"), true).await, Ok(true));
}

#[tokio::test]
async fn a_replay_that_was_begun_is_remembered_until_it_is_known_not_to_have_reached_redis() {
    let folder = Folder::new("spool");
    spooled(folder.path(), 2, 10).await;
    let mut first = reader(folder.path());
    first.begin(&[1, 2]).unwrap();
    first.untried(&[2]).unwrap();
    drop(first);
    let batch = reader(folder.path()).waiting(0, 2).unwrap();
    assert!(batch[0].tried.is_some() && batch[1].tried.is_none());
    let Resubmit::Put(message) =
        of_message(batch[0].record.clone()).resubmit(UnixMillis::new(5_000), batch[0].tried)
    else {
        panic!("it was a put")
    };
    assert_eq!(
        message,
        Message::new(topic(), "xxxxxxxxxx").id("m0").unwrap().first_tried(batch[0].tried.unwrap()).any_time()
    );
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
        // The clock was wrong by as much when the record was appended, and is right now.
        let wrong = |at: UnixMillis| at.set_by(-by);
        let now = UnixMillis::from(SystemTime::now());
        let message = Message::new(topic(), "x").id("a").unwrap().after(Duration::from_secs(3600));
        let record = SpoolRecord::put(&message, Fate::Unknown, wrong(now));
        open(folder.path()).unwrap().append(vec![record]).await.unwrap();
        let mut reader = reader(folder.path());
        reader.begin(&[1]).unwrap();
        let past = rusqlite::Connection::open(folder.join("spool.db")).unwrap();
        past.execute("UPDATE waiting SET spooled_ms = spooled_ms - ?", [by]).unwrap();
        past.execute("UPDATE begun SET tried_ms = tried_ms - ?", [by]).unwrap();
        let spooled = reader.waiting(0, 1).unwrap().remove(0);
        let off = |at: UnixMillis| at.get().abs_diff(now.get());
        let minute = 60_000;
        assert!(off(spooled.spooled_at) < minute && off(spooled.tried.unwrap()) < minute, "{spooled:?}");
        let record = of_message(spooled.record);
        assert!(off(record.tried_at) < minute, "{record:?}");
        let Resubmit::Put(message) = record.resubmit(now, spooled.tried) else { panic!("it was a put") };
        let Due::After(left) = message.due else { panic!("{:?}", message.due) };
        assert!(left > Duration::from_secs(3540) && off(message.tried.unwrap()) < minute, "{message:?}");
    }
}
