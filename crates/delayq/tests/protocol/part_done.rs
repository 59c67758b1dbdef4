//! Calls that meet a key of another type halfway: the answers name the part that is done.

use crate::action::{Action, Item};
use crate::bare_shard::NOW;
use crate::lab::{Lab, item};
use crate::snapshot::lossy;

#[tokio::test]
async fn a_put_that_stored_some_does_not_say_that_nothing_was_changed() {
    let mut lab = Lab::new().await;
    lab.put("t", &[item("first", NOW)]).await;
    lab.shard.break_key("alarms").await;
    // The plain messages are ready at once. The script handles the replacing message alone, which needs the alarms.
    let mut replacing = Item::new(b"late", NOW + 1000);
    replacing.replace = true;
    let put = Action::Put { topic: "t".into(), items: vec![item("a", NOW), item("b", NOW), replacing] };
    let words = lab.words(put).await;
    assert_eq!(words[1..3], ["ready", "ready"]);
    assert!(words[3].starts_with("refused WRONGTYPE "), "{words:?}");
    let stored = lab.shard.snapshot().await;
    let ids: Vec<String> = stored.bodies.keys().map(|(_, id)| lossy(id)).collect();
    assert_eq!(ids, ["a", "b", "first"]);
    assert_eq!(stored.number("stats", "accepted:1"), 3);
}

#[tokio::test]
async fn an_ack_that_settled_some_does_not_say_that_nothing_was_changed() {
    let mut lab = Lab::new().await;
    lab.put("t", &[item("a", NOW)]).await;
    lab.put("u", &[item("b", NOW)]).await;
    let receipts = [lab.reserve("t").await, lab.reserve("u").await].concat();
    lab.shard.break_key("t:2").await;
    let words = lab.words(Action::Ack { receipts: receipts.clone() }).await;
    assert_eq!(words[0], "delivered");
    assert!(words[1].starts_with("failed WRONGTYPE "), "{words:?}");
    let after = lab.shard.snapshot().await;
    assert_eq!(after.index("leases").len(), 1, "what failed is leased still");
    lab.shard.mend_key("t:2").await;
    assert_eq!(lab.words(Action::Ack { receipts }).await, ["expired", "delivered"]);
}
