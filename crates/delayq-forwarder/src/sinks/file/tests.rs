//! The file sink against a real folder.

use super::{FileConfig, FileSink};
use crate::parcel::About;
use crate::{Parcel, Sink};
use bytes::Bytes;
use delayq::UnixMillis;
use delayq::protocol::UnixMicros;
use delayq_service::brokers::{Outcome, Outcomes};
use delayq_service::config::ByteSize;
use std::fs;
use std::path::Path;

pub(crate) fn parcel(destination: &str, id: &str, body: &[u8]) -> Parcel {
    Parcel {
        destination: destination.to_owned(),
        key: None,
        partition: None,
        headers: vec![("trace".to_owned(), "t".to_owned())],
        body: Bytes::copy_from_slice(body),
        about: About {
            id: id.to_owned(),
            topic: "orders".to_owned(),
            group: None,
            due: UnixMillis::new(1000),
            ready: UnixMicros(1_000_250),
            attempt: 1,
            delivery: 1,
            identity: "orders/17".to_owned(),
        },
    }
}

fn sink(dir: &Path, rotate_at: Option<ByteSize>) -> FileSink {
    FileSink::new(FileConfig { dir: dir.to_owned(), rotate_at })
}

async fn delivered(sink: &FileSink, parcels: &[Parcel]) -> Vec<Outcome> {
    let outcomes = Outcomes::new(parcels.len());
    sink.deliver(parcels, &outcomes).await;
    let mut all = outcomes.fresh();
    all.sort_by_key(|(index, _)| *index);
    all.into_iter().map(|(_, outcome)| outcome).collect()
}

#[tokio::test]
async fn a_line_holds_text_as_text_and_bytes_as_base64() {
    let folder = tempfile::tempdir().unwrap();
    let sink = sink(folder.path(), None);
    let parcels = [parcel("a/b.ndjson", "1", b"text"), parcel("a/b.ndjson", "2", b"\xff")];
    assert_eq!(delivered(&sink, &parcels).await, [Outcome::Delivered, Outcome::Delivered]);
    let start = "\"topic\":\"orders\",\"due\":1000,\"ready\":1000,\"late_ms\":0.25,\"attempt\":1,\"delivery\":1,\
                 \"headers\":{\"trace\":\"t\"},";
    let expected = format!(
        "{{\"id\":\"1\",{start}\"payload\":\"text\"}}\n{{\"id\":\"2\",{start}\"payload_base64\":\"/w==\"}}\n"
    );
    assert_eq!(fs::read_to_string(folder.path().join("a/b.ndjson")).unwrap(), expected);
}

#[tokio::test]
async fn a_path_that_leaves_the_folder_is_rejected_and_its_neighbours_are_not() {
    let folder = tempfile::tempdir().unwrap();
    let sink = sink(folder.path(), None);
    let parcels: Vec<Parcel> =
        ["x", "../y", "/etc/y", "", "a/../../y", "./z"].map(|path| parcel(path, "1", b"")).into();
    let words: Vec<&str> = delivered(&sink, &parcels).await.iter().map(Outcome::word).collect();
    assert_eq!(words, ["delivered", "rejected", "rejected", "rejected", "rejected", "rejected"]);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[tokio::test]
async fn a_line_without_an_end_is_cut_off_before_the_next_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("f");
    fs::write(&path, "{\"id\":\"0\"}\n{\"id\":\"1\",\"to").unwrap();
    let sink = sink(folder.path(), None);
    assert_eq!(delivered(&sink, &[parcel("f", "2", b"")]).await, [Outcome::Delivered]);
    let text = fs::read_to_string(&path).unwrap();
    let ids: Vec<String> = text
        .lines()
        .map(|line| {
            serde_json::from_str::<serde_json::Value>(line).unwrap()["id"].as_str().unwrap().to_owned()
        })
        .collect();
    assert_eq!(ids, ["0", "2"]);
}

#[tokio::test]
async fn a_full_file_is_set_aside_and_none_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let sink = sink(folder.path(), Some(ByteSize::from_bytes(600)));
    for id in 0..10 {
        assert_eq!(
            delivered(&sink, &[parcel("f", &id.to_string(), &[b'x'; 100])]).await,
            [Outcome::Delivered]
        );
    }
    let mut ids: Vec<u64> = Vec::new();
    let mut files = 0;
    for entry in fs::read_dir(folder.path()).unwrap() {
        files += 1;
        let text = fs::read_to_string(entry.unwrap().path()).unwrap();
        assert!(text.len() <= 600);
        ids.extend(text.lines().map(|line| {
            let record: serde_json::Value = serde_json::from_str(line).unwrap();
            record["id"].as_str().unwrap().parse::<u64>().unwrap()
        }));
    }
    ids.sort_unstable();
    assert_eq!((files, ids), (5, (0..10).collect()));
}

#[tokio::test]
async fn a_file_that_another_holds_is_unavailable_until_it_is_let_go() {
    let folder = tempfile::tempdir().unwrap();
    let (first, second) = (sink(folder.path(), None), sink(folder.path(), None));
    assert_eq!(delivered(&first, &[parcel("f", "1", b"")]).await, [Outcome::Delivered]);
    assert_eq!(delivered(&second, &[parcel("f", "2", b"")]).await[0].word(), "unavailable");
    first.close().await.unwrap();
    assert_eq!(delivered(&second, &[parcel("f", "2", b"")]).await, [Outcome::Delivered]);
}

#[tokio::test]
async fn a_file_that_is_taken_away_is_begun_again_and_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (path, aside) = (folder.path().join("d/f"), folder.path().join("f.old"));
    let sink = sink(folder.path(), None);
    let deliver =
        async |id: &str| assert_eq!(delivered(&sink, &[parcel("d/f", id, b"")]).await, [Outcome::Delivered]);
    deliver("1").await;
    fs::rename(&path, &aside).unwrap();
    deliver("2").await;
    deliver("3").await;
    assert_eq!(fs::read_to_string(&aside).unwrap().lines().count(), 1);
    assert_eq!(fs::read_to_string(&path).unwrap().lines().count(), 2);
    fs::remove_dir_all(folder.path().join("d")).unwrap();
    deliver("4").await;
    assert_eq!(fs::read_to_string(&path).unwrap().lines().count(), 1);
}

#[tokio::test]
async fn no_symlink_is_followed_to_a_file_or_through_a_folder() {
    let (folder, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let foreign = elsewhere.path().join("f");
    fs::write(&foreign, "theirs").unwrap();
    std::os::unix::fs::symlink(&foreign, folder.path().join("f")).unwrap();
    std::os::unix::fs::symlink(elsewhere.path(), folder.path().join("d")).unwrap();
    let sink = sink(folder.path(), Some(ByteSize::from_bytes(1)));
    for destination in ["f", "d/f", "d/new", "d/new/f"] {
        let outcome = delivered(&sink, &[parcel(destination, "1", b"")]).await.remove(0);
        assert_eq!(outcome.word(), "unavailable", "{destination}");
        assert!(format!("{outcome:?}").contains("is a symlink"), "{outcome:?}");
    }
    assert_eq!(fs::read_to_string(&foreign).unwrap(), "theirs");
    assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 1);
}

#[tokio::test]
async fn a_file_set_aside_does_not_take_the_place_of_a_symlink() {
    let folder = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink("nowhere", folder.path().join("f.1")).unwrap();
    let sink = sink(folder.path(), Some(ByteSize::from_bytes(1)));
    for id in ["1", "2"] {
        assert_eq!(delivered(&sink, &[parcel("f", id, b"")]).await, [Outcome::Delivered]);
    }
    assert!(fs::symlink_metadata(folder.path().join("f.1")).unwrap().is_symlink());
    assert_eq!(fs::read_to_string(folder.path().join("f.2")).unwrap().lines().count(), 1);
}

#[tokio::test]
async fn a_file_that_somebody_else_wrote_is_not_cut_off() {
    let folder = tempfile::tempdir().unwrap();
    let sink = sink(folder.path(), None);
    for text in ["no line at all", "{\"id\":\"0\"}\n{\"other\":1}", "\0\0"] {
        fs::write(folder.path().join("f"), text).unwrap();
        let outcome = delivered(&sink, &[parcel("f", "1", b"")]).await.remove(0);
        assert!(format!("{outcome:?}").contains("move it away"), "{outcome:?}");
        assert_eq!(fs::read_to_string(folder.path().join("f")).unwrap(), text);
    }
}

#[tokio::test]
async fn a_pipe_is_refused_and_not_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let made = std::process::Command::new("mkfifo").arg(folder.path().join("f")).status().unwrap();
    assert!(made.success());
    let outcome = delivered(&sink(folder.path(), None), &[parcel("f", "1", b"")]).await.remove(0);
    assert!(format!("{outcome:?}").contains("not a regular file"), "{outcome:?}");
}
