//! A damaged log: every commit before the damage survives, and the losses are named.

use super::{ids, open, put, reader, released};
use delayq_spool::{Retried, SpoolWriter};
use delayq_tests::folder::Folder;
use std::fs;
use std::path::Path;

type Damage = fn(&mut Vec<u8>);

const DAMAGES: [(&str, Damage); 3] = [
    ("a cut tail", |log| log.truncate(log.len() - 20_000)),
    ("a flipped bit", |log| {
        let middle = log.len() / 2;
        log[middle] ^= 4;
    }),
    ("zeroed blocks", |log| {
        let block = log.len() / 2 / 4096 * 4096;
        log[block..block + 8192].fill(0);
    }),
];

/// Twenty records in commits of their own, all of them still in the log.
async fn twenty(folder: &Path) -> SpoolWriter {
    let spool = open(folder).unwrap();
    for n in 0..20 {
        spool.append(vec![put(&format!("m{n:02}"), 500)]).await.unwrap();
    }
    spool
}

/// A copy of an open spool, as after the death of its writer, with a changed log.
fn copied(folder: &Path, damage: Damage) -> Folder {
    let copy = Folder::new("spool-copy");
    for name in ["spool.db", "waiting.flag"] {
        fs::copy(folder.join(name), copy.join(name)).unwrap();
    }
    let mut log = fs::read(folder.join("spool.db-wal")).unwrap();
    damage(&mut log);
    fs::write(copy.join("spool.db-wal"), log).unwrap();
    copy
}

#[tokio::test]
async fn of_a_damaged_log_every_commit_before_the_damage_is_there() {
    let folder = Folder::new("spool");
    let _writer = twenty(folder.path()).await;
    let whole = copied(folder.path(), |_| {});
    assert_eq!(ids(&reader(whole.path())).len(), 20);
    for (name, damage) in DAMAGES {
        let copy = copied(folder.path(), damage);
        let seen = ids(&reader(copy.path()));
        let expected: Vec<String> = (0..seen.len()).map(|n| format!("m{n:02}")).collect();
        assert_eq!(seen, expected, "{name}");
        assert!(seen.len() < 20 && seen.len() > 5, "{name}: {}", seen.len());
    }
}

#[tokio::test]
async fn what_a_damaged_log_has_lost_is_named_once_and_its_numbers_are_not_given_again() {
    let folder = Folder::new("spool");
    let _writer = twenty(folder.path()).await;
    let whole = copied(folder.path(), |_| {});
    assert_eq!(reader(whole.path()).rejected(0, 9).unwrap(), []);
    for (name, damage) in DAMAGES {
        let copy = copied(folder.path(), damage);
        let writer = open(copy.path()).unwrap();
        let mut reader = reader(copy.path());
        let lost = format!("acknowledged records {} to 20 are not in the database", ids(&reader).len() + 1);
        let aside = reader.rejected(0, 9).unwrap();
        assert!(aside.len() == 1 && aside[0].reason.starts_with(&lost), "{name}: {lost}, {aside:?}");
        let retried = reader.retry(aside[0].seq, false).unwrap();
        assert_eq!(retried, Retried::Unknown, "{name}: there is nothing to retry");
        writer.append(vec![put("new", 10)]).await.unwrap();
        assert_eq!(reader.waiting(20, 9).unwrap()[0].seq, 21, "{name}");
        assert!(reader.discard(20).unwrap() && reader.stats().unwrap().balances(), "{name}");
        drop((writer, reader));
        released(copy.path()).await;
        let again = self::reader(copy.path());
        assert!(again.rejected(0, 9).unwrap().is_empty() && again.stats().unwrap().balances(), "{name}");
    }
}

#[tokio::test]
async fn a_witness_that_was_not_written_whole_is_none() {
    let folder = Folder::new("spool");
    let _writer = twenty(folder.path()).await;
    let copy = copied(folder.path(), |log| log.truncate(log.len() - 20_000));
    let mut flag = fs::read(copy.join("waiting.flag")).unwrap();
    flag[16] ^= 1;
    fs::write(copy.join("waiting.flag"), flag).unwrap();
    assert_eq!(reader(copy.path()).rejected(0, 9).unwrap(), []);
}
