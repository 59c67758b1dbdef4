//! Refusals of the scripts `move` and `discard`, which change nothing.

use crate::bare_shard::NOW;
use crate::lab::{Lab, item};
use crate::snapshot::lossy;
use delayq::protocol::Verb;

/// Node `a` of several has the shard.
async fn recorded() -> Lab {
    let mut lab = Lab::new().await;
    lab.put("t", &[item("one", NOW + 1000)]).await;
    moved(&mut lab, "", "@a").await;
    lab
}

async fn moved(lab: &mut Lab, from: &str, to: &str) -> String {
    answer(lab, Verb::Move, &[from, to]).await
}

async fn answer(lab: &mut Lab, verb: Verb, args: &[&str]) -> String {
    match lab.shard.call(verb, args).await {
        Ok(words) => words.iter().map(|word| lossy(word)).collect::<Vec<_>>().join(" "),
        Err(error) => error,
    }
}

async fn changes_nothing(lab: &mut Lab, verb: Verb, args: &[&str]) -> String {
    // A move wakes listeners even without a change.
    lab.shard.command(&[b"DEL", b"~said"]).await;
    let before = lab.shard.snapshot().await;
    let answer = answer(lab, verb, args).await;
    lab.shard.command(&[b"DEL", b"~said"]).await;
    assert_eq!(lab.shard.snapshot().await, before, "{verb:?} {args:?}");
    answer
}

#[tokio::test]
async fn a_move_from_another_record_than_the_present_one_changes_nothing() {
    let mut lab = recorded().await;
    for from in ["", "@b", ">b", ">b:7"] {
        assert_eq!(changes_nothing(&mut lab, Verb::Move, &[from, ">b:8"]).await, "differs 1@a", "{from:?}");
    }
    assert_eq!(changes_nothing(&mut lab, Verb::Move, &["@a", "@a"]).await, "exists");
    assert_eq!(moved(&mut lab, "@a", ">b:8").await, "moved");
    // The second node to fence the shard is refused; a repeat by the first node is not.
    assert_eq!(changes_nothing(&mut lab, Verb::Move, &["@a", ">b:9"]).await, "differs 1>b:8");
    assert_eq!(changes_nothing(&mut lab, Verb::Move, &["@a", ">b:8"]).await, "exists");
    assert_eq!(changes_nothing(&mut lab, Verb::Move, &[">b:7", "@b"]).await, "differs 1>b:8");
}

#[tokio::test]
async fn a_move_to_what_names_no_node_is_refused_by_name() {
    let mut lab = recorded().await;
    for to in ["", "b", "@", ">", "@b c", ">b:x", ">b:1:2", "@b\r\n", "1@b"] {
        let refused = changes_nothing(&mut lab, Verb::Move, &["@a", to]).await;
        assert!(refused.contains("DQARG") && refused.contains("names no node"), "{to:?}: {refused}");
    }
}

#[tokio::test]
async fn a_shard_that_has_not_moved_keeps_everything_from_a_discard() {
    let mut lab = recorded().await;
    let keys: Vec<String> = lab.shard.snapshot().await.keys.clone();
    let base = lab.shard.key("");
    let keys: Vec<&str> = keys.iter().map(|key| key.strip_prefix(&base).unwrap_or(key)).collect();
    assert_eq!(changes_nothing(&mut lab, Verb::Discard, &keys).await, "kept 1@a");
    // No named key exists on this node; the script reports that only for a shard that has moved.
    moved(&mut lab, "@a", ">b:8").await;
    assert_eq!(changes_nothing(&mut lab, Verb::Discard, &["meta", "nothing"]).await, "discarded 0");
    moved(&mut lab, ">b:8", "@a").await;
    assert_eq!(changes_nothing(&mut lab, Verb::Discard, &keys).await, "kept 1@a", "it was taken back");
}

#[tokio::test]
async fn a_shard_that_is_not_there_is_neither_moved_nor_discarded() {
    let mut lab = Lab::new().await;
    lab.shard.remove().await;
    for (verb, args) in [(Verb::Move, ["", "@a"].as_slice()), (Verb::Discard, &["stats"])] {
        let refused = changes_nothing(&mut lab, verb, args).await;
        assert!(refused.contains("DQUNINITIALISED"), "{verb:?}: {refused}");
    }
}
