//! A full spool, or a full disk.

use super::{Notes, ids, open, put, reader, topic};
use delayq_core::fate::Fate;
use delayq_core::id::MessageId;
use delayq_core::spool::SpoolRecord;
use delayq_core::target::Target;
use delayq_core::time::UnixMillis;
use delayq_spool::{SpoolError, SpoolSettings, SpoolWriter};
use delayq_tests::folder::Folder;
use delayq_tests::small_disk::SmallDisk;

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
async fn a_full_spool_refuses_record_by_record_and_nothing_overtakes_what_it_refused() {
    let folder = Folder::new("spool");
    let spool = SpoolWriter::open(folder.path(), &SpoolSettings { max_bytes: 1 << 20 }).unwrap();
    let cancel = |id: &str| {
        let target = Target::from(MessageId::own(id).unwrap());
        SpoolRecord::cancel(&topic(), &target, UnixMillis::new(2_000))
    };
    // The large record does not fit: in the log and in the database the record would take 1.4 MB.
    let records = [put("a", 10), put("large", 700_000), cancel("large"), cancel("a"), put("b", 10)];
    let answers = spool.append_each(&records).await;
    let taken: Vec<bool> = answers.iter().map(Result::is_ok).collect();
    assert_eq!(taken, [true, false, false, true, true]);
    assert!(matches!(answers[2], Err(SpoolError::Full { max_bytes: 0x10_0000, .. })), "{answers:?}");
    assert_eq!(ids(&reader(folder.path())), ["a", "a", "b"]);
    let behind = spool.append_behind(&[put("a", 700_000), cancel("a"), cancel("b"), cancel("c")]).await;
    assert!(behind[0].is_err() && behind[1].is_err(), "{behind:?}");
    assert_eq!(behind[2..], [Ok(true), Ok(false)]);
    assert_eq!(ids(&reader(folder.path())), ["a", "a", "b", "b"]);
}

#[tokio::test]
async fn a_full_disk_refuses_and_keeps_what_it_had_acknowledged() {
    let Some(disk) = SmallDisk::mount(1024) else { return };
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
