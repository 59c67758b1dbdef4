//! `delayq up --redis-cluster`: the private Redis is a cluster.

use super::{delayq, lines};
use delayq_tests::binary::Binary;
use delayq_tests::deadline::{LONG, SHORT, wait_until};
use delayq_tests::folder::Folder;
use delayq_tests::process::Signal;
use std::path::Path;

fn up(data: &Path, args: &[&str]) -> Binary {
    Binary::new("delayq").args(["up", "--forward", "now=file", "--data"]).arg(data).args(args)
}

#[tokio::test]
async fn a_private_cluster_keeps_everything_over_a_kill() {
    let folder = Folder::new("up");
    let data = folder.join("data");
    for (life, args) in [&["--redis-cluster", "3", "--shards", "12"][..], &[]].into_iter().enumerate() {
        let mut process = up(&data, args).start();
        process.wait_for_line("delayq is up", LONG).await;
        for n in 0..20 {
            let id = format!("{life}-{n}");
            let put = ["put", "now", "{}", "--in", "100ms", "--id", &id];
            let finished = delayq(&data, &put).run(b"", SHORT).await;
            assert_eq!(finished.code, Some(0), "{finished:?}");
        }
        let delivered = data.join("delivered.ndjson");
        wait_until("each delivery", LONG, async || lines(&delivered) == 20 * (life + 1)).await;
        let put = delayq(&data, &["put", "kept", "{}", "--in", "1h"]).run(b"", SHORT).await;
        assert_eq!(put.code, Some(0), "{put:?}");
        let counted = delayq(&data, &["count", "kept", "--json"]).run(b"", SHORT).await;
        assert!(counted.stdout.contains(&format!("\"delayed\": {},", life + 1)), "{counted:?}");
        let doctor = delayq(&data, &["doctor"]).run(b"", SHORT).await;
        assert!(doctor.stdout.contains("a cluster of 3 masters"), "{doctor:?}");
        process.end_by(if life == 0 { Signal::KILL } else { Signal::INT }, SHORT).await;
    }
}

#[tokio::test]
async fn a_folder_of_one_redis_does_not_become_a_cluster() {
    let folder = Folder::new("up");
    let data = folder.join("data");
    let mut process = up(&data, &["--no-etcd"]).start();
    process.wait_for_line("delayq is up", LONG).await;
    process.ends_well_by(Signal::INT, SHORT).await;
    let finished = up(&data, &["--no-etcd", "--redis-cluster", "3"]).run(b"", SHORT).await;
    assert_eq!(finished.code, Some(64), "{finished:?}");
    assert!(finished.stderr.contains("keeps its messages in one Redis"), "{}", finished.stderr);
    let streamed = ["--redis-cluster", "3", "--forward", "streamed=stream"];
    let finished = up(&folder.join("other"), &streamed).run(b"", SHORT).await;
    assert_eq!(finished.code, Some(64), "{finished:?}");
    assert!(finished.stderr.contains("a stream is in one Redis"), "{}", finished.stderr);
}
