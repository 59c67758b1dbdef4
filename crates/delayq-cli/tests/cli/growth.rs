//! `delayq shards grow`: more shards, and commands with an older configuration.

use super::{deployment, done, run};

#[tokio::test]
async fn a_deployment_grows_and_every_command_finds_what_was_there_before() {
    let redis = deployment().await;
    for n in 0..20 {
        done(&redis, &["put", "t", "{}", "--id", &format!("id-{n}"), "--in", "1h"]).await;
    }
    assert!(done(&redis, &["shards"]).await.starts_with("layout 1: 4 shards\n"));
    let said = done(&redis, &["shards", "grow", "--to", "7", "--yes"]).await;
    assert!(said.starts_with("there are 7 shards now: 3 added, 4 updated"), "{said}");
    let again = done(&redis, &["shards", "grow", "--to", "7"]).await;
    assert!(again.starts_with("there are already 7 shards"), "{again}");
    let shards = done(&redis, &["shards"]).await;
    assert!(shards.starts_with("layout 2: 4, then 7 shards\n"), "{shards}");
    for n in 0..20 {
        let (id, body) = (format!("id-{n}"), "{}");
        let put = done(&redis, &["put", "t", body, "--id", &id, "--in", "1h"]).await;
        assert!(put.contains("exists"), "{put}");
        let found = done(&redis, &["get", "t", &id]).await;
        assert!(found.contains("delayed"), "{found}");
        let cancelled = done(&redis, &["cancel", "t", &id]).await;
        assert!(cancelled.contains("cancelled"), "{cancelled}");
    }
    done(&redis, &["audit"]).await;
    assert!(done(&redis, &["init"]).await.contains("already exists, with 7 shards in"));
}

#[tokio::test]
async fn a_growth_to_fewer_shards_is_refused() {
    let redis = deployment().await;
    let finished = run(&redis, &["shards", "grow", "--to", "3"]).await;
    assert_eq!(finished.code, Some(65), "{finished:?}");
    assert!(finished.stderr.contains("the shard count can only grow"), "{}", finished.stderr);
}
