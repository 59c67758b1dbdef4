//! Redis keeps the most used keys as tables: a call's cost is independent of topics and leases.

use crate::action::{Action, Item};
use crate::lab::{Lab, item};
use crate::snapshot::Snapshot;

async fn encoding(lab: &mut Lab, key: &str) -> String {
    let key = format!("~{key}");
    let found = lab.shard.command(&[b"OBJECT", b"ENCODING", key.as_bytes()]).await;
    redis::from_redis_value(found).unwrap()
}

fn longest(shard: &Snapshot) -> usize {
    let fields = shard.hashes.values().flat_map(|hash| hash.keys().map(String::len));
    let members = shard.indexes.values().flat_map(|index| index.keys().map(Vec::len));
    fields.chain(members).max().unwrap()
}

fn items(name: &str, many: usize, due: &str) -> Vec<Item> {
    (0..many).map(|n| item(&format!("{name}{n}"), due)).collect()
}

#[tokio::test]
async fn after_a_thousand_puts_the_counters_the_registry_and_the_alarms_are_tables() {
    let mut lab = Lab::new().await;
    lab.put("a", &items("few", 300, "+5000")).await;
    for key in ["meta", "stats", "alarms"] {
        assert!(!["hashtable", "skiplist"].contains(&encoding(&mut lab, key).await.as_str()), "{key}");
    }
    for name in ["some", "more", "many"] {
        lab.put("a", &items(name, 300, "+5000")).await;
    }
    for (key, table) in [("meta", "hashtable"), ("stats", "hashtable"), ("alarms", "skiplist")] {
        assert_eq!(encoding(&mut lab, key).await, table, "{key}");
    }
    let shard = lab.shard.snapshot().await;
    assert!(longest(&shard) < 64, "what made them tables is left: {shard:?}");
}

#[tokio::test]
async fn the_leases_of_a_batch_are_a_table_and_few_leases_a_list() {
    let mut lab = Lab::new().await;
    lab.put("a", &items("few", 3, "1")).await;
    let receipts = lab.reserve("a").await;
    assert_ne!(encoding(&mut lab, "leases").await, "skiplist");
    lab.words(Action::Ack { receipts }).await;
    lab.put("a", &items("many", 100, "1")).await;
    assert_eq!(lab.reserve("a").await.len(), 100);
    assert_eq!(encoding(&mut lab, "leases").await, "skiplist");
    let shard = lab.shard.snapshot().await;
    assert_eq!((shard.index("leases").len(), longest(&shard) < 64), (100, true), "{shard:?}");
}
