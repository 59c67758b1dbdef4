//! Damaged files: the reports, and the records saved.

use super::{Notes, cancel_group, ids, open, put, reader, released, spooled, topic};
use delayq_core::fate::Fate;
use delayq_core::message::Message;
use delayq_core::spool::SpoolRecord;
use delayq_core::time::UnixMillis;
use delayq_spool::{Salvaged, SpoolError, SpoolReader, salvage_spool};
use delayq_tests::folder::Folder;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;

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
    write("UPDATE waiting SET body = 17, boot = 'none' WHERE seq = 2");
    write("UPDATE waiting SET up_ms = x'00', spooled_ms = -5 WHERE seq = 3");
    write("UPDATE books SET replayed = 'many'");
    let mut reader = reader(folder.path());
    let batch = reader.waiting(0, 10).unwrap();
    let sound: Vec<bool> = batch.iter().map(|spooled| spooled.record.is_ok()).collect();
    assert_eq!(sound, [false, false, true, true]);
    assert_eq!(batch[0].record, Err("the body is Text, not bytes".to_owned()));
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
async fn a_damaged_file_is_refused_by_name_and_salvaged() {
    let folder = Folder::new("spool");
    spooled(folder.path(), 1_999, 200).await;
    let grouped = Message::new(topic(), "x").id("grouped").unwrap().group("g").unwrap();
    let grouped = SpoolRecord::put(&grouped, Fate::NotApplied, UnixMillis::new(1));
    open(folder.path()).unwrap().append(vec![grouped]).await.unwrap();
    released(folder.path()).await;
    let mut before = reader(folder.path());
    let first = before.waiting(0, 1).unwrap().remove(0);
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
    let Salvaged { waiting, rejected, lost, lost_numbers, aside, .. } = salvage_spool(folder.path()).unwrap();
    let lost = lost.unwrap();
    assert!((1_900..1_998).contains(&waiting), "{waiting} saved, {lost} lost");
    assert_eq!((waiting + lost, rejected), (1_998, 2));
    assert_eq!(lost_numbers.len() as u64, lost);
    assert!(aside.exists());
    let reader = reader(folder.path());
    let found = reader.waiting(0, 2_000).unwrap();
    assert!(found.iter().all(|spooled| !lost_numbers.contains(&spooled.seq) && spooled.record.is_ok()));
    assert_eq!(found.len() as u64, waiting);
    assert_eq!(found[0], first, "Redis recognises it");
    assert_eq!(reader.rejected(0, 10).unwrap().iter().map(|r| r.seq).collect::<Vec<_>>(), [7, 1_999]);
    assert!(reader.stats().unwrap().balances());
    // No number is reused, and records of a group are known as such.
    let spool = open(folder.path()).unwrap();
    assert_eq!(spool.append_group(&cancel_group("g"), true).await, Ok(true));
    spool.append(vec![put("new", 10)]).await.unwrap();
    assert_eq!(reader.waiting(2_000, 10).unwrap().len(), 2);
}

#[tokio::test]
async fn a_salvage_that_was_cut_off_is_named_and_begins_again() {
    let folder = Folder::new("spool");
    spooled(folder.path(), 2_000, 200).await;
    released(folder.path()).await;
    let file = OpenOptions::new().write(true).open(folder.join("spool.db")).unwrap();
    file.write_all_at(&[0xa5; 8192], 40 * 4096).unwrap();
    drop(file);
    // Interrupted with the new database complete, and the old database already moved.
    std::fs::create_dir(folder.join("salvaged-5")).unwrap();
    std::fs::write(folder.join("salvaged-5/spool.db"), "the new one").unwrap();
    std::fs::rename(folder.join("spool.db"), folder.join("spool.db.damaged-5")).unwrap();
    let refusal = open(folder.path()).unwrap_err();
    assert!(matches!(&refusal, SpoolError::Damaged { why, .. } if why.contains("cut off")), "{refusal}");
    assert!(!folder.join("spool.db").exists(), "nothing is made in its place");
    let salvaged = salvage_spool(folder.path()).unwrap();
    assert!(salvaged.waiting > 1_900 && salvaged.waiting + salvaged.lost.unwrap() == 2_000, "{salvaged:?}");
    std::fs::create_dir(folder.join("salvaged-6")).unwrap();
    assert_eq!(reader(folder.path()).stats().unwrap().waiting, salvaged.waiting);
    assert!(matches!(salvage_spool(folder.path()), Err(SpoolError::Sound { .. } | SpoolError::InUse { .. })));
}

#[tokio::test]
async fn a_number_out_of_its_order_does_not_keep_a_salvage_from_ending() {
    let folder = Folder::new("spool");
    spooled(folder.path(), 20, 3_000).await;
    released(folder.path()).await;
    let path = folder.join("spool.db");
    let mut bytes = std::fs::read(&path).unwrap();
    // The last leaf of a table, its first cell: the length of the row, then its number, each a varint.
    let mut leaves = (0..bytes.len()).step_by(4096).filter(|page| bytes[*page] == 13);
    let leaf = leaves.next_back().unwrap();
    let cell = leaf + usize::from(u16::from_be_bytes([bytes[leaf + 8], bytes[leaf + 9]]));
    let length = bytes[cell..].iter().position(|byte| byte & 0x80 == 0).unwrap() + 1;
    bytes[cell + length] = 1;
    std::fs::write(&path, bytes).unwrap();
    let salvaged = salvage_spool(folder.path()).unwrap();
    assert!(salvaged.waiting >= 18, "{salvaged:?}");
}

#[tokio::test]
async fn nothing_is_salvaged_while_the_folder_is_in_use() {
    let folder = Folder::new("spool");
    let _spool = open(folder.path()).unwrap();
    assert!(matches!(salvage_spool(folder.path()), Err(SpoolError::InUse { .. })));
}

async fn merged(folder: &Path, count: usize) -> u64 {
    spooled(folder, count, 200).await;
    released(folder).await;
    reader(folder).shrink().unwrap();
    released(folder).await;
    fs::metadata(folder.join("spool.db")).unwrap().len()
}

fn database(folder: &Path) -> File {
    OpenOptions::new().write(true).open(folder.join("spool.db")).unwrap()
}

#[tokio::test]
async fn a_spool_whose_end_is_missing_is_salvaged_and_what_is_lost_is_counted() {
    let folder = Folder::new("spool");
    let length = merged(folder.path(), 2_000).await;
    database(folder.path()).set_len(length / 2 + 1_000).unwrap();
    let refusal = open(folder.path()).unwrap_err();
    assert!(matches!(refusal, SpoolError::Damaged { .. }), "{refusal}");
    released(folder.path()).await;
    let salvaged = salvage_spool(folder.path()).unwrap();
    let lost = salvaged.lost.unwrap();
    assert!(lost > 500 && salvaged.waiting > 500 && salvaged.waiting + lost == 2_000, "{salvaged:?}");
    assert_eq!(salvaged.lost_numbers.len() as u64, lost);
    let found = reader(folder.path()).waiting(0, 2_000).unwrap();
    let cut = found.iter().filter(|spooled| spooled.record.is_err()).count();
    assert!(found.len() as u64 == salvaged.waiting && cut <= 20, "{cut} of the page where the file ends");
}

#[tokio::test]
async fn a_spool_whose_first_page_is_damaged_is_salvaged_whole() {
    let folder = Folder::new("spool");
    merged(folder.path(), 500).await;
    database(folder.path()).write_all_at(&[0xa5; 4096], 0).unwrap();
    let refusal = open(folder.path()).unwrap_err();
    assert!(refusal.to_string().contains("spool salvage"), "{refusal}");
    released(folder.path()).await;
    let salvaged = salvage_spool(folder.path()).unwrap();
    assert_eq!((salvaged.waiting, salvaged.lost), (500, Some(0)), "{salvaged:?}");
    let reader = reader(folder.path());
    assert!(ids(&reader).len() == 500 && reader.stats().unwrap().balances());
}

#[tokio::test]
async fn of_a_spool_without_its_books_no_number_of_lost_records_is_made_up() {
    let folder = Folder::new("spool");
    let length = merged(folder.path(), 300).await;
    let all = vec![0xa5; usize::try_from(length).unwrap() - 4096];
    database(folder.path()).write_all_at(&all, 4096).unwrap();
    let salvaged = salvage_spool(folder.path()).unwrap();
    assert_eq!((salvaged.waiting, salvaged.lost, salvaged.issued), (0, None, 300), "{salvaged:?}");
}

#[tokio::test]
async fn a_file_of_another_kind_is_not_salvaged() {
    let folder = Folder::new("spool");
    fs::write(folder.join("spool.db"), "a letter to somebody else; ".repeat(1_000)).unwrap();
    let refusal = salvage_spool(folder.path()).unwrap_err();
    assert!(matches!(&refusal, SpoolError::NotASpool { why, .. } if why.contains("no record")), "{refusal}");
    let other = Folder::new("spool");
    let connection = rusqlite::Connection::open(other.join("spool.db")).unwrap();
    connection.execute_batch("CREATE TABLE waiting (a); INSERT INTO waiting VALUES (1)").unwrap();
    drop(connection);
    assert!(matches!(salvage_spool(other.path()), Err(SpoolError::NotASpool { .. })));
}
