//! Deleting a topic: only an empty topic, and from every shard.

use super::{deployment, done, keys, run};

#[tokio::test]
async fn a_topic_is_deleted_with_its_policy_and_only_where_it_holds_no_message() {
    let redis = deployment().await;
    done(&redis, &["topic", "set", "orders", "--create", "--max-attempts", "3"]).await;
    done(&redis, &["put", "orders", "{}", "--id", "a", "--in", "1h"]).await;
    let before = keys(&redis).await;
    let delete = ["topic", "delete", "orders"];
    let refused = run(&redis, &delete).await;
    assert_eq!(refused.code, Some(65), "{refused:?}");
    assert!(refused.stderr.contains("orders is not empty") && refused.stderr.contains("delayed messages"));
    // The policy stays in every shard, including empty shards.
    assert_eq!(keys(&redis).await, before);
    done(&redis, &["topic", "set", "orders", "--remember-cancelled", "0s"]).await;
    done(&redis, &["cancel", "orders", "a"]).await;
    assert_eq!(done(&redis, &delete).await, "orders: deleted\n");
    assert!(done(&redis, &["topics"]).await.starts_with("no topic yet"));
    done(&redis, &["audit", "--bodies"]).await;
    assert_eq!(run(&redis, &delete).await.code, Some(66));
    // The id is not recognised any more, and the policy is at its defaults.
    done(&redis, &["put", "orders", "{}", "--id", "a", "--in", "1h"]).await;
    assert!(done(&redis, &["topic", "show", "orders"]).await.contains("16 (default)"));
    assert!(done(&redis, &["audit"]).await.contains("balance"));
    done(&redis, &["audit", "--bodies"]).await;
}
