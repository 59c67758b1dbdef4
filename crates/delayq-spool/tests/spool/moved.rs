//! A spool that is deleted, moved or mounted over while processes have it open.

use super::{Notes, ids, open, put, reader};
use delayq_core::fate::Fate;
use delayq_core::spool::Spool;
use delayq_spool::SpoolError;
use delayq_tests::folder::Folder;
use delayq_tests::remark::skipped;
use delayq_tests::small_disk::SmallDisk;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn within(folder: &Folder) -> PathBuf {
    folder.join("spool")
}

fn is_refused(answer: &Result<(), SpoolError>) -> bool {
    matches!(answer, Err(error @ SpoolError::Moved { .. }) if error.fate() == Fate::NotApplied)
}

fn delete(dir: &Path, name: &str) {
    fs::remove_file(dir.join(name)).unwrap();
}

#[tokio::test]
async fn what_is_spooled_after_the_database_was_deleted_is_in_a_new_one_and_what_was_lost_is_named() {
    let folder = Folder::new("spool");
    let (spool, other) = (open(folder.path()).unwrap(), open(folder.path()).unwrap());
    for id in ["a", "b"] {
        spool.append(vec![put(id, 10)]).await.unwrap();
    }
    for file in fs::read_dir(folder.path()).unwrap().map(Result::unwrap) {
        if file.file_name().to_string_lossy().starts_with("spool.db") {
            fs::remove_file(file.path()).unwrap();
        }
    }
    spool.append(vec![put("c", 10)]).await.unwrap();
    other.append(vec![put("d", 10)]).await.unwrap();
    assert!(spool.may_hold() && other.may_hold());
    let reader = reader(folder.path());
    assert_eq!(ids(&reader), ["c", "d"]);
    let lost = reader.rejected(0, 9).unwrap();
    assert!(
        lost.len() == 1 && lost[0].reason.starts_with("acknowledged records 1 to 2 are not in the database"),
        "{lost:?}"
    );
}

#[tokio::test]
async fn a_log_without_its_database_is_set_aside_and_not_taken_for_that_of_the_next() {
    let folder = Folder::new("spool");
    let spool = open(folder.path()).unwrap();
    spool.append(vec![put("a", 10)]).await.unwrap();
    delete(folder.path(), "spool.db");
    spool.append(vec![put("b", 10)]).await.unwrap();
    assert_eq!(ids(&reader(folder.path())), ["b"]);
    let names = fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap().file_name());
    let orphans = names.filter(|name| name.to_string_lossy().contains(".orphan-")).count();
    assert_eq!(orphans, 2, "the log and its index");
}

#[tokio::test]
async fn nothing_is_spooled_to_a_folder_that_was_moved_until_it_is_back() {
    let folder = Folder::new("spool");
    let (dir, away) = (within(&folder), folder.join("away"));
    let spool = open(&dir).unwrap();
    spool.append(vec![put("a", 10)]).await.unwrap();
    fs::rename(&dir, &away).unwrap();
    assert!(is_refused(&spool.append(vec![put("b", 10)]).await));
    // Another folder in its place may be the mount point of a disk that is gone.
    fs::create_dir(&dir).unwrap();
    assert!(is_refused(&spool.append(vec![put("c", 10)]).await));
    // A record without a predecessor is not held up.
    assert_eq!(spool.append_behind(&[put("other", 10)]).await, [Ok(false)]);
    assert!(spool.append_behind(&[put("a", 10)]).await[0].is_err());
    fs::remove_dir(&dir).unwrap();
    fs::rename(&away, &dir).unwrap();
    spool.append(vec![put("d", 10)]).await.unwrap();
    assert_eq!(ids(&reader(&dir)), ["a", "d"]);
}

#[tokio::test]
async fn a_spool_that_another_process_began_in_the_place_of_a_moved_one_is_joined() {
    let folder = Folder::new("spool");
    let dir = within(&folder);
    let spool = open(&dir).unwrap();
    spool.append(vec![put("a", 10)]).await.unwrap();
    fs::rename(&dir, folder.join("away")).unwrap();
    let other = open(&dir).unwrap();
    other.append(vec![put("b", 10)]).await.unwrap();
    spool.append(vec![put("c", 10)]).await.unwrap();
    assert_eq!(ids(&reader(&dir)), ["b", "c"]);
    assert_eq!(ids(&reader(&folder.join("away"))), ["a"]);
}

#[tokio::test]
async fn a_log_that_was_deleted_alone_or_put_in_place_of_another_refuses_all() {
    let folder = Folder::new("spool");
    let spool = open(folder.path()).unwrap();
    spool.append(vec![put("a", 10)]).await.unwrap();
    delete(folder.path(), "spool.db-wal");
    for id in ["b", "c"] {
        assert!(is_refused(&spool.append(vec![put(id, 10)]).await));
    }
}

#[tokio::test]
async fn a_flag_that_was_deleted_is_made_again_for_all() {
    let folder = Folder::new("spool");
    let (spool, other) = (open(folder.path()).unwrap(), open(folder.path()).unwrap());
    delete(folder.path(), "waiting.flag");
    spool.append(vec![put("a", 10)]).await.unwrap();
    other.append(vec![put("b", 10)]).await.unwrap();
    assert!(spool.may_hold() && other.may_hold());
    let mut reader = reader(folder.path());
    reader.done(&[1, 2]).unwrap();
    assert!(!spool.may_hold() && !other.may_hold());
}

#[tokio::test]
async fn nothing_is_spooled_beneath_a_disk_that_was_mounted_over_the_folder() {
    let Some(disk) = SmallDisk::mount(4 << 10) else { return };
    let (dir, over) = (disk.path().join("spool"), |dir: &Path| {
        Command::new("mount").args(["-t", "tmpfs", "tmpfs"]).arg(dir).status().unwrap().success()
    });
    let spool = open(&dir).unwrap();
    spool.append(vec![put("a", 10)]).await.unwrap();
    if !over(&dir) {
        return skipped("it needs to mount a tmpfs");
    }
    let answer = spool.append(vec![put("b", 10)]).await;
    let unmounted = Command::new("umount").arg("-l").arg(&dir).status().unwrap();
    assert!(is_refused(&answer) && unmounted.success(), "{answer:?}");
    spool.append(vec![put("c", 10)]).await.unwrap();
    assert_eq!(ids(&reader(&dir)), ["a", "c"]);
}

#[tokio::test]
async fn a_reader_finishes_what_it_has_open_and_follows_the_folder_then() {
    let folder = Folder::new("spool");
    let dir = within(&folder);
    let spool = open(&dir).unwrap();
    spool.append(vec![put("a", 10)]).await.unwrap();
    let mut reader = reader(&dir);
    assert_eq!(reader.has_moved(), None);
    fs::remove_dir_all(&dir).unwrap();
    assert!(reader.has_moved().is_some());
    assert!(matches!(reader.follow_folder(), Err(SpoolError::Moved { .. })), "nothing is begun there");
    assert_eq!(ids(&reader), ["a"], "acknowledged, and still to be had");
    reader.done(&[1]).unwrap();
    let other = open(&dir).unwrap();
    other.append(vec![put("b", 10)]).await.unwrap();
    reader.follow_folder().unwrap();
    assert_eq!((ids(&reader), reader.has_moved()), (vec!["b".to_owned()], None));
}
