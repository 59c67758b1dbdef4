//! The spool on a real disk: what is acknowledged stays, what is damaged is named, who may use it.
#![allow(clippy::unwrap_used, reason = "all of it is tests, the functions that they share included")]

use delayq_core::fate::Fate;
use delayq_core::id::{Group, MessageId, Topic};
use delayq_core::message::Message;
use delayq_core::spool::{Resubmit, Spool, SpoolRecord};
use delayq_core::target::Target;
use delayq_core::time::UnixMillis;
use delayq_spool::{
    Salvaged, SpoolError, SpoolReader, SpoolSettings, SpoolStats, SpoolWriter, salvage_spool,
};
use delayq_tests::deadline::SHORT;
use delayq_tests::folder::Folder;
use delayq_tests::process::{Process, Signal, Stream};
use delayq_tests::small_disk::SmallDisk;
use std::fs::{self, OpenOptions, Permissions};
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;
use std::process::Command;

fn topic() -> Topic {
    Topic::new("orders").unwrap()
}

fn put(id: &str, bytes: usize) -> SpoolRecord {
    let message = Message::new(topic(), vec![b'x'; bytes]).id(id).unwrap();
    SpoolRecord::put(&message, Fate::NotApplied, UnixMillis::new(1_000))
}

fn open(folder: &Path) -> Result<SpoolWriter, SpoolError> {
    SpoolWriter::open(folder, &SpoolSettings::default())
}

/// A child that another test starts has the locks of this process until it is under way: so long, they are held.
#[allow(clippy::disallowed_methods, reason = "a deadline of a test")]
fn reader(folder: &Path) -> SpoolReader {
    let patience = std::time::Instant::now() + SHORT;
    loop {
        match SpoolReader::open(folder, "the test") {
            Err(SpoolError::Held { .. }) if std::time::Instant::now() < patience => std::thread::yield_now(),
            opened => return opened.unwrap(),
        }
    }
}

fn ids(reader: &SpoolReader) -> Vec<String> {
    let batch = reader.waiting(0, 100_000).unwrap();
    batch.into_iter().map(|spooled| spooled.record.unwrap().target.id.to_string()).collect()
}

async fn spooled(folder: &Path, count: usize, bytes: usize) {
    let spool = open(folder).unwrap();
    spool.append((0..count).map(|n| put(&format!("m{n}"), bytes)).collect()).await.unwrap();
}

/// Waits until nobody has the folder: neither the thread of the last spool, nor a child that another test starts.
async fn released(folder: &Path) {
    delayq_tests::deadline::wait_until("the folder to be released", SHORT, || async {
        let free = |name| match fs::File::open(folder.join(name)) {
            Ok(file) => file.try_lock().is_ok(),
            Err(_) => true,
        };
        free("users.lock") && free("compensator.lock")
    })
    .await;
}

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
        let record = reader.waiting(0, 1).unwrap().remove(0).record.unwrap();
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
    assert_eq!(spool.holds_group(&Group::new("g").unwrap()).await, Ok(true));
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
        batch[0].record.as_ref().unwrap().resubmit(UnixMillis::new(5_000), batch[0].tried)
    else {
        panic!("it was a put")
    };
    assert_eq!(
        message,
        Message::new(topic(), "xxxxxxxxxx").id("m0").unwrap().first_tried(batch[0].tried.unwrap())
    );
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
        assert_eq!(spool.append_behind(vec![cancel]).await, Ok(vec![expected]));
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

#[tokio::test]
async fn a_full_spool_refuses_and_takes_again_once_there_is_room() {
    let folder = Folder::new("spool");
    let spool = SpoolWriter::open(folder.path(), &SpoolSettings { max_bytes: 1 << 20 }).unwrap();
    let mut taken = 0_u64;
    let refusal = loop {
        match spool.append(vec![put(&format!("m{taken}"), 10_000)]).await {
            Ok(()) => taken += 1,
            Err(refusal) => break refusal,
        }
    };
    assert!(matches!(refusal, SpoolError::Full { max_bytes: 0x10_0000, .. }), "{refusal}");
    assert_eq!(refusal.fate(), Fate::NotApplied);
    assert!(taken > 30, "only {taken} records of 10 kB fit into 1 MiB");
    let mut reader = reader(folder.path());
    assert_eq!(reader.stats().unwrap().waiting, taken);
    assert!(reader.stats().unwrap().bytes <= 1 << 20);
    let seqs: Vec<u64> = reader.waiting(0, 1000).unwrap().iter().map(|spooled| spooled.seq).collect();
    reader.done(&seqs).unwrap();
    spool.append(vec![put("late", 10_000)]).await.unwrap();
    assert_eq!(ids(&reader), ["late"]);
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
async fn a_second_compensator_is_refused_with_the_name_of_the_first() {
    let folder = Folder::new("spool");
    let first = reader(folder.path());
    let refusal = SpoolReader::open(folder.path(), "the second").unwrap_err();
    assert!(matches!(&refusal, SpoolError::Held { by, .. } if by == "the test"), "{refusal}");
    drop(first);
    SpoolReader::open(folder.path(), "the second").unwrap();
}

#[tokio::test]
async fn a_file_of_another_kind_is_refused_and_left_as_it_is() {
    let folder = Folder::new("spool");
    let file = folder.join("spool.db");
    let text = "a letter to somebody else, much longer than the head of a database file; ".repeat(30);
    fs::write(&file, &text).unwrap();
    assert!(matches!(open(folder.path()), Err(SpoolError::NotASpool { .. })));
    assert_eq!(fs::read_to_string(&file).unwrap(), text);

    fs::remove_file(&file).unwrap();
    let other = rusqlite::Connection::open(&file).unwrap();
    other.execute_batch("CREATE TABLE other (a)").unwrap();
    drop(other);
    assert!(matches!(open(folder.path()), Err(SpoolError::NotASpool { .. })));
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[tokio::test]
async fn no_other_user_reads_or_locks_what_is_spooled() {
    let folder = Folder::new("spool");
    let dir = folder.path().join("made/spool");
    let spool = open(&dir).unwrap();
    let _reader = reader(&dir);
    spool.append(vec![put("a", 10)]).await.unwrap();
    assert_eq!(mode(&dir), 0o700);
    for name in ["spool.db", "spool.db-wal", "spool.db-shm", "users.lock", "compensator.lock"] {
        assert_eq!(mode(&dir.join(name)), 0o600, "{name}");
    }
}

#[tokio::test]
async fn files_that_were_open_to_all_are_shut_and_stay_open_to_their_group() {
    let folder = Folder::new("spool");
    spooled(folder.path(), 1, 10).await;
    released(folder.path()).await;
    for name in ["spool.db", "users.lock"] {
        fs::set_permissions(folder.path().join(name), Permissions::from_mode(0o664)).unwrap();
    }
    assert_eq!(ids(&reader(folder.path())), ["m0"]);
    for name in ["spool.db", "users.lock"] {
        assert_eq!(mode(&folder.path().join(name)), 0o660, "{name}");
    }
}

#[tokio::test]
async fn a_newer_format_is_refused() {
    let folder = Folder::new("spool");
    spooled(folder.path(), 1, 1).await;
    let newer = rusqlite::Connection::open(folder.join("spool.db")).unwrap();
    newer.execute_batch("PRAGMA user_version = 2").unwrap();
    drop(newer);
    assert!(matches!(open(folder.path()), Err(SpoolError::Newer { found: 2, known: 1, .. })));
}

#[tokio::test]
async fn a_flipped_bit_in_a_record_spoils_that_one_alone() {
    let folder = Folder::new("spool");
    spooled(folder.path(), 3, 50).await;
    let connection = rusqlite::Connection::open(folder.join("spool.db")).unwrap();
    let mut body: Vec<u8> =
        connection.query_row("SELECT body FROM waiting WHERE seq = 2", [], |row| row.get(0)).unwrap();
    body[40] ^= 4;
    connection.execute("UPDATE waiting SET body = ? WHERE seq = 2", [body]).unwrap();
    let batch = reader(folder.path()).waiting(0, 3).unwrap();
    let sound: Vec<bool> = batch.iter().map(|spooled| spooled.record.is_ok()).collect();
    assert_eq!(sound, [true, false, true]);
}

#[tokio::test]
async fn a_row_of_another_type_stops_no_other_and_is_set_aside() {
    let folder = Folder::new("spool");
    spooled(folder.path(), 4, 10).await;
    let connection = rusqlite::Connection::open(folder.join("spool.db")).unwrap();
    let write = |sql| connection.execute_batch(sql).unwrap();
    write("UPDATE waiting SET body = 'text', spooled_ms = 'yesterday' WHERE seq = 1");
    write("UPDATE waiting SET body = 17, tried_ms = -1 WHERE seq = 2");
    write("UPDATE waiting SET tried_ms = x'00', spooled_ms = -5 WHERE seq = 3");
    write("UPDATE books SET replayed = 'many'");
    let mut reader = reader(folder.path());
    let batch = reader.waiting(0, 10).unwrap();
    let sound: Vec<bool> = batch.iter().map(|spooled| spooled.record.is_ok()).collect();
    assert_eq!(sound, [false, false, true, true]);
    assert!(batch[2].tried.is_some(), "it was tried, at whatever time");
    assert_eq!(batch[0].record, Err("its body is not bytes, but Text".to_owned()));
    reader.reject(1, "no bytes").unwrap();
    reader.reject(2, "no bytes").unwrap();
    assert_eq!(reader.rejected(0, 10).unwrap().len(), 2);
    assert_eq!((reader.stats().unwrap().rejected, reader.stats().unwrap().waiting), (2, 2));
    drop((reader, connection));
    released(folder.path()).await;
    let sound = salvage_spool(folder.path()).unwrap_err();
    assert!(matches!(sound, SpoolError::Sound { .. }), "{sound}");
}

#[tokio::test]
async fn a_batch_takes_no_more_than_its_bytes_and_at_least_one_record() {
    let folder = Folder::new("spool");
    spooled(folder.path(), 40, 1 << 20).await;
    assert_eq!(reader(folder.path()).waiting(0, 500).unwrap().len(), 16);
}

#[tokio::test]
async fn a_damaged_file_is_refused_by_name_and_salvaged() {
    let folder = Folder::new("spool");
    spooled(folder.path(), 1_999, 200).await;
    let grouped = Message::new(topic(), "x").id("grouped").unwrap().group("g").unwrap();
    let grouped = SpoolRecord::put(&grouped, Fate::NotApplied, UnixMillis::new(1));
    open(folder.path()).unwrap().append(vec![grouped]).await.unwrap();
    released(folder.path()).await;
    let mut before = reader(folder.path());
    before.reject(7, "conflict").unwrap();
    before.reject(1_999, "conflict").unwrap();
    before.shrink().unwrap();
    drop(before);
    let file = OpenOptions::new().write(true).open(folder.join("spool.db")).unwrap();
    let pages = file.metadata().unwrap().len() / 4096;
    assert!(pages > 60, "{pages}");
    file.write_all_at(&[0xa5; 8192], 40 * 4096).unwrap();
    drop(file);
    released(folder.path()).await;
    let refusal = SpoolReader::open(folder.path(), "the test").unwrap_err();
    assert!(matches!(refusal, SpoolError::Damaged { .. }), "{refusal}");

    released(folder.path()).await;
    let Salvaged { waiting, rejected, lost, lost_numbers, aside } = salvage_spool(folder.path()).unwrap();
    assert!((1_900..1_998).contains(&waiting), "{waiting} saved, {lost} lost");
    assert_eq!((waiting + lost, rejected), (1_998, 2));
    assert_eq!(lost_numbers.len() as u64, lost);
    assert!(aside.exists());
    let reader = reader(folder.path());
    let found = reader.waiting(0, 2_000).unwrap();
    assert!(found.iter().all(|spooled| !lost_numbers.contains(&spooled.seq) && spooled.record.is_ok()));
    assert_eq!(found.len() as u64, waiting);
    assert_eq!(reader.rejected(0, 10).unwrap().iter().map(|r| r.seq).collect::<Vec<_>>(), [7, 1_999]);
    assert!(reader.stats().unwrap().balances());
    // No number is given twice, and what is of a group is known to be.
    let spool = open(folder.path()).unwrap();
    assert_eq!(spool.holds_group(&Group::new("g").unwrap()).await, Ok(true));
    spool.append(vec![put("new", 10)]).await.unwrap();
    assert_eq!(reader.waiting(2_000, 10).unwrap().len(), 1);
}

#[tokio::test]
async fn nothing_is_salvaged_while_the_folder_is_in_use() {
    let folder = Folder::new("spool");
    let _spool = open(folder.path()).unwrap();
    assert!(matches!(salvage_spool(folder.path()), Err(SpoolError::InUse { .. })));
}

#[tokio::test]
async fn of_a_log_with_a_cut_tail_every_whole_commit_is_there() {
    let folder = Folder::new("spool");
    let copy = Folder::new("spool-copy");
    let spool = open(folder.path()).unwrap();
    for n in 0..20 {
        spool.append(vec![put(&format!("m{n:02}"), 500)]).await.unwrap();
    }
    let log = fs::read(folder.join("spool.db-wal")).unwrap();
    for cut in [1, 5_000, 20_000] {
        fs::copy(folder.join("spool.db"), copy.join("spool.db")).unwrap();
        let _ = fs::remove_file(copy.join("spool.db-shm"));
        let mut file = fs::File::create(copy.join("spool.db-wal")).unwrap();
        file.write_all(&log[..log.len() - cut]).unwrap();
        file.seek(SeekFrom::Start(0)).unwrap();
        drop(file);
        let seen = ids(&reader(copy.path()));
        let expected: Vec<String> = (0..seen.len()).map(|n| format!("m{n:02}")).collect();
        assert_eq!(seen, expected, "cut by {cut}");
        assert!(seen.len() < 20 && seen.len() > 5, "cut by {cut}: {}", seen.len());
    }
}

#[tokio::test]
async fn a_dropped_append_is_there_whole_or_not_at_all() {
    let folder = Folder::new("spool");
    let spool = open(folder.path()).unwrap();
    for n in 0..50 {
        let append = spool.append((0..10).map(|m| put(&format!("{n}:{m}"), 100)).collect());
        tokio::select! {
            biased;
            _ = append => {}
            () = tokio::task::yield_now() => {}
        }
    }
    drop(spool);
    released(folder.path()).await;
    let seen = ids(&reader(folder.path()));
    assert_eq!(seen.len() % 10, 0);
    for n in 0..50 {
        let own = seen.iter().filter(|id| id.starts_with(&format!("{n}:"))).count();
        assert!(own == 0 || own == 10, "{own} of append {n}");
    }
}

/// The example that appends and prints each number once it is acknowledged.
fn appender(folder: &Path) -> Process {
    let test = std::env::current_exe().unwrap();
    let example = test.parent().unwrap().parent().unwrap().join("examples/spool_appender");
    let mut command = Command::new(example);
    command.arg(folder);
    Process::spawn("spool_appender", command)
}

#[tokio::test]
async fn what_a_killed_writer_had_acknowledged_is_there_without_a_gap() {
    for round in 0..5_usize {
        let folder = Folder::new("spool");
        let mut writer = appender(folder.path());
        writer.wait_for_line(&format!("acknowledged {}", 100 + 77 * round), SHORT).await;
        writer.end_by(Signal::KILL, SHORT).await;
        let acknowledged: Vec<usize> = writer
            .text(Stream::Out)
            .lines()
            .filter_map(|line| line.strip_prefix("acknowledged ")?.parse().ok())
            .collect();
        let reader = reader(folder.path());
        let mut seen: Vec<usize> = ids(&reader).iter().map(|id| id.parse().unwrap()).collect();
        let batch = reader.waiting(0, 1_000_000).unwrap();
        let first = batch[0].seq;
        assert!(batch.iter().zip(first..).all(|(spooled, seq)| spooled.seq == seq), "a gap in the numbers");
        seen.sort_unstable();
        let lost: Vec<_> = acknowledged.iter().filter(|n| seen.binary_search(n).is_err()).collect();
        assert!(lost.is_empty(), "acknowledged and lost: {lost:?}");
        assert!(reader.stats().unwrap().balances());
    }
}

#[tokio::test]
async fn a_full_disk_refuses_and_keeps_what_it_had_acknowledged() {
    let test = "a_full_disk_refuses_and_keeps_what_it_had_acknowledged";
    let Some(disk) = SmallDisk::mount(1024, test) else { return };
    let spool = open(disk.path()).unwrap();
    let mut taken = Vec::new();
    let refusal = loop {
        let id = format!("m{:04}", taken.len());
        match spool.append(vec![put(&id, 5_000)]).await {
            Ok(()) => taken.push(id),
            Err(refusal) => break refusal,
        }
        assert!(taken.len() < 1_000, "1 MiB cannot hold 5 MB");
    };
    assert!(matches!(refusal, SpoolError::DiskFull { .. } | SpoolError::Io { .. }), "{refusal}");
    let reader = reader(disk.path());
    let seen = ids(&reader);
    assert!(taken.iter().all(|id| seen.contains(id)), "{} acknowledged, {} there", taken.len(), seen.len());
    assert!(seen.len() - taken.len() <= 1 && reader.stats().unwrap().balances());
}
