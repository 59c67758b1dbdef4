//! `delayq up --redis-cluster` and `--redis-nodes`, with several private Redises.

use super::{delayq, lines};
use delayq_tests::binary::{Binary, Finished};
use delayq_tests::deadline::{LONG, SHORT, wait_until};
use delayq_tests::folder::Folder;
use delayq_tests::process::Signal;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

fn up(data: &Path, args: &[&str]) -> Binary {
    Binary::new("delayq").args(["up", "--forward", "now=file", "--data"]).arg(data).args(args)
}

async fn done(data: &Path, args: &[&str]) -> String {
    let Finished { code, stdout, stderr } = delayq(data, args).run(b"", SHORT).await;
    assert_eq!(code, Some(0), "{args:?}: {stdout}\n{stderr}");
    stdout
}

async fn by_node(data: &Path) -> BTreeMap<String, (Vec<u64>, u64)> {
    let shards: Vec<Value> = serde_json::from_str(&done(data, &["shards", "--json"]).await).unwrap();
    let mut nodes = BTreeMap::<_, (Vec<u64>, u64)>::new();
    for shard in shards {
        let (own, remembered) = nodes.entry(shard["node"].as_str().unwrap().to_owned()).or_default();
        own.push(shard["shard"].as_u64().unwrap());
        *remembered += shard["markers"].as_u64().unwrap();
    }
    nodes
}

/// Three lives of a folder with several shards on each of three Redises: each life delivers new messages on
/// every Redis, and keeps the messages of the lives before.
async fn keeps_everything(data: &Path, first: &[&str], doctor_says: &str) {
    let lives = [(first, Signal::KILL), (&[], Signal::INT), (&[], Signal::KILL)];
    for (life, (args, signal)) in lives.into_iter().enumerate() {
        let mut process = up(data, args).start();
        process.wait_for_line("delayq is up", LONG).await;
        for n in 0..20 {
            done(data, &["put", "now", "{}", "--in", "100ms", "--id", &format!("{life}-{n}")]).await;
        }
        let delivered = data.join("forwarded/delivered.ndjson");
        wait_until("each delivery", LONG, async || lines(&delivered) == 20 * (life + 1)).await;
        done(data, &["put", "kept", "{}", "--in", "1h"]).await;
        let counted = done(data, &["count", "kept", "--json"]).await;
        assert!(counted.contains(&format!("\"delayed\": {},", life + 1)), "{counted}");
        let doctor = delayq(data, &["doctor"]).run(b"", SHORT).await;
        assert!(doctor.stdout.contains(doctor_says), "{doctor:?}");
        let nodes = by_node(data).await;
        assert!(nodes.len() == 3 && nodes.values().all(|(_, remembered)| *remembered > 0), "{nodes:?}");
        process.end_by(signal, SHORT).await;
    }
}

#[tokio::test]
async fn a_private_cluster_keeps_everything_over_a_kill() {
    let folder = Folder::new("up");
    // By default, with four shards for each master.
    keeps_everything(&folder.join("data"), &["--redis-cluster", "3"], "a cluster of 3 masters").await;
}

#[tokio::test]
async fn private_independent_redises_keep_everything_over_a_kill_and_each_its_shards() {
    let folder = Folder::new("up");
    // Once on sockets, and once on ports with a password, since the second path is too long for sockets.
    for data in [folder.join("data"), folder.join(&"long".repeat(30))] {
        keeps_everything(&data, &["--redis-nodes", "3", "--shards", "12"], "node c (").await;
        let mut process = up(&data, &[]).start();
        process.wait_for_line("delayq is up", LONG).await;
        let shards: Vec<_> = by_node(&data).await.into_iter().map(|(node, (own, _))| (node, own)).collect();
        let of = |node: &str, own: [u64; 4]| (node.to_owned(), own.to_vec());
        assert_eq!(shards, [of("a", [0, 1, 2, 3]), of("b", [4, 5, 6, 7]), of("c", [8, 9, 10, 11])]);
        process.ends_well_by(Signal::INT, SHORT).await;
    }
}

#[tokio::test]
async fn a_folder_keeps_the_redises_that_it_was_made_with() {
    let folder = Folder::new("up");
    let refused = async |data: &Path, args: &[&str], why: &str| {
        let finished = up(data, &[&["--no-etcd"], args].concat()).run(b"", SHORT).await;
        assert_eq!(finished.code, Some(64), "{args:?}: {finished:?}");
        assert!(finished.stderr.contains(why), "{args:?}: {}", finished.stderr);
    };
    let (cluster, nodes) = (["--redis-cluster", "3"], ["--redis-nodes", "2"]);
    // A refusal leaves a new folder unchanged, still open to any shape.
    let (one, two) = (folder.join("one"), folder.join("two"));
    for data in [&one, &two] {
        for shape in [cluster, nodes] {
            let streamed = [&shape[..], &["--forward", "streamed=stream"]].concat();
            refused(data, &streamed, "a stream needs one Redis, and this is").await;
        }
        refused(data, &[&nodes[..], &["--shards", "1"]].concat(), "2 independent Redises need a shard each")
            .await;
        refused(
            data,
            &[cluster, nodes].concat(),
            "'--redis-cluster <N>' cannot be used with '--redis-nodes <N>'",
        )
        .await;
    }
    for (data, args) in [(&one, &[][..]), (&two, &nodes)] {
        let mut process = up(data, &[&["--no-etcd"], args].concat()).start();
        process.wait_for_line("delayq is up", LONG).await;
        process.ends_well_by(Signal::INT, SHORT).await;
    }
    refused(&one, &cluster, "keeps its messages in one Redis: omit --redis-cluster 3").await;
    refused(&one, &nodes, "keeps its messages in one Redis: omit --redis-nodes 2").await;
    let two_kept = "keeps its messages in 2 independent Redises: omit";
    refused(&two, &cluster, &format!("{two_kept} --redis-cluster 3")).await;
    refused(&two, &["--redis-nodes", "3"], &format!("{two_kept} --redis-nodes 3")).await;
    refused(&two, &["--forward", "streamed=stream"], "this is 2 independent Redises: forward to a file")
        .await;
}
