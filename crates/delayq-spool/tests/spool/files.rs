//! The files of a spool: owner, users and kind.

use super::{ids, open, put, reader, released, spooled};
use delayq_spool::{SpoolError, SpoolReader};
use delayq_tests::folder::Folder;
use delayq_tests::remark::skipped;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;

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
async fn what_root_opens_belongs_to_the_owner_of_the_folder() {
    let folder = Folder::new("spool");
    if chown(folder.path(), Some(12_345), Some(12_346)).is_err() {
        return skipped("it needs to be root");
    }
    let refusal = SpoolReader::open_beside(folder.path()).unwrap_err();
    assert!(matches!(refusal, SpoolError::Missing { .. }), "{refusal}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "a look makes nothing");
    let spool = open(folder.path()).unwrap();
    let _reader = reader(folder.path());
    spool.append(vec![put("a", 10)]).await.unwrap();
    for file in fs::read_dir(folder.path()).unwrap().map(Result::unwrap) {
        let found = file.metadata().unwrap();
        assert_eq!((found.uid(), found.gid()), (12_345, 12_346), "{:?}", file.file_name());
    }
}
