//! A topic's policy: a change leaves the rest unchanged, and the answer shows every setting.

use super::{deployed, deployment, done, run};
use delayq_tests::redis_server::{RedisOptions, RedisServer};
use serde_json::Value;

fn words(table: &str) -> String {
    table.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[tokio::test]
async fn setting_the_lease_does_not_reset_the_attempts() {
    let redis = deployment().await;
    let set = ["topic", "set", "orders", "--create", "--max-attempts", "3", "--backoff", "5s"];
    let created = words(&done(&redis, &set).await);
    assert!(created.contains("max-attempts 3 16 (default)"), "{created}");
    let changed = done(&redis, &["topic", "set", "orders", "--lease", "1m", "--json"]).await;
    let changed: Value = serde_json::from_str(&changed).unwrap();
    assert_eq!((&changed["policy"]["lease"], &changed["before"]["lease"]), (&"1m".into(), &"30s".into()));
    assert_eq!(changed["policy"]["max_attempts"], "3");
    let shown = words(&done(&redis, &["topic", "show", "orders"]).await);
    for row in ["max-attempts 3 ", "lease 1m ", "backoff 5s ", "remember-cancelled 1h (default) "] {
        assert!(shown.contains(row), "{row} is not in\n{shown}");
    }
    let reset = done(&redis, &["topic", "set", "orders", "--reset", "lease"]).await;
    assert!(words(&reset).contains("max-attempts 3 lease 30s (default) 1m"), "{reset}");
    let reset = done(&redis, &["topic", "set", "orders", "--reset", "all", "--lease", "2m"]).await;
    assert!(words(&reset).contains("max-attempts 16 (default) 3 lease 2m"), "{reset}");
}

#[tokio::test]
async fn a_policy_change_that_says_nothing_or_two_things_is_refused() {
    let redis = deployment().await;
    done(&redis, &["put", "orders", "{}", "--in", "1h"]).await;
    for (args, words) in [
        (&["topic", "set", "orders"][..], "nothing to set"),
        (&["topic", "set", "orders", "--lease", "0s"], "write 1ms to 1day"),
        (&["topic", "set", "orders", "--reset", "leese"], "must be all, or one of"),
        (&["topic", "set", "orders", "--lease", "1m", "--reset", "lease"], "lease is both set and reset"),
    ] {
        let finished = run(&redis, args).await;
        assert_eq!(finished.code, Some(64), "{args:?}: {finished:?}");
        assert!(finished.stderr.contains(words), "{args:?}: {}", finished.stderr);
    }
}

#[tokio::test]
async fn a_durability_that_redis_can_never_confirm_is_refused() {
    let redis = deployed(RedisServer::start_with(RedisOptions::default()).await).await;
    let refused = run(&redis, &["topic", "set", "orders", "--create", "--durability", "disk"]).await;
    assert_ne!(refused.code, Some(0), "{refused:?}");
    assert!(refused.stderr.contains("cannot confirm disk: "), "{}", refused.stderr);
    done(&redis, &["topic", "set", "orders", "--create", "--durability", "memory"]).await;
    let warned = run(&redis, &["topic", "set", "orders", "--durability", "replica:1"]).await;
    assert_eq!(warned.code, Some(0), "{warned:?}");
    assert!(warned.stderr.contains("cannot confirm replica:1: 0 replicas follow"), "{}", warned.stderr);
}
