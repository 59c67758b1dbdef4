//! Several independent Redises, one empty or silent: the shards that are created there, or not.

use delayq::{Admin, Client, Error, ShardCount};
use delayq_tests::deployment::created;
use delayq_tests::redis_nodes::{RedisNodes, settings};
use delayq_tests::redis_server::RedisServer;

const WHOLE: [&str; 6] = ["2@a 4,6", "2@a 4,6", "2@b 4,6", "2@b 4,6", "2@c 4,6", "2@c 4,6"];

fn count(shards: u16) -> ShardCount {
    ShardCount::new(shards).unwrap()
}

fn admin(rows: &[[String; 3]], shards: u16) -> Admin {
    Admin::new(Client::new(settings(rows, shards)))
}

/// Grown from four shards at two nodes.
async fn grown() -> RedisNodes {
    let nodes = RedisNodes::start(2).await;
    let _ = created(settings(&nodes.rows()[..2], 4)).await;
    admin(&nodes.rows(), 4).shards().grow(count(6), |_| ()).await.unwrap();
    nodes
}

/// Empty for a missing shard.
async fn layouts(nodes: &RedisNodes) -> Vec<String> {
    let mut layouts = Vec::new();
    for (node, server) in nodes.servers.iter().enumerate() {
        for shard in nodes.shards_of(node) {
            let fields: Vec<Option<String>> =
                server.command(&["HMGET", &format!("{{dq:{shard}}}:meta"), "layout", "counts"]).await;
            layouts.push(fields.into_iter().flatten().collect::<Vec<_>>().join(" "));
        }
    }
    layouts
}

async fn empty(server: &RedisServer) {
    server.command::<()>(&["FLUSHALL"]).await;
}

async fn keys(server: &RedisServer) -> u64 {
    server.command(&["DBSIZE"]).await
}

#[tokio::test]
async fn an_emptied_node_gets_its_shards_by_the_layout_of_the_others() {
    let nodes = grown().await;
    for configured in [4, 6] {
        for emptied in &nodes.servers {
            empty(emptied).await;
            assert_eq!(admin(&nodes.rows(), configured).init().await.unwrap(), 2, "of {configured}");
            assert_eq!(layouts(&nodes).await, WHOLE);
        }
    }
}

#[tokio::test]
async fn an_emptied_node_stays_empty_beside_a_shard_of_another_deployment() {
    let nodes = grown().await;
    empty(&nodes.servers[0]).await;
    nodes.servers[2].command::<u32>(&["HSET", "{dq:5}:meta", "counts", "5,6"]).await;
    let error = admin(&nodes.rows(), 6).init().await.unwrap_err();
    assert!(matches!(error, Error::Deployment(_)), "{error}");
    assert!(error.to_string().contains("shard 5 was created with layout 2 as number 5 of 5,6"), "{error}");
    assert_eq!(keys(&nodes.servers[0]).await, 0);
}

#[tokio::test]
async fn the_layout_is_that_of_any_node_until_none_has_a_shard() {
    let mut nodes = grown().await;
    let layout = async |nodes: &RedisNodes| admin(&nodes.rows(), 4).layout().await;
    empty(&nodes.servers[0]).await;
    assert_eq!(layout(&nodes).await.unwrap().to_string(), "4,6");
    empty(&nodes.servers[1]).await;
    nodes.servers[2].kill().await;
    let error = layout(&nodes).await.unwrap_err();
    assert!(error.is_outage() && error.to_string().contains("c (redis://"), "{error}");
    nodes.servers[2].resume().await;
    assert_eq!(layout(&nodes).await.unwrap().to_string(), "4,6");
    empty(&nodes.servers[2]).await;
    assert!(matches!(layout(&nodes).await, Err(Error::Uninitialised(shard)) if shard.get() == 0));
}

#[tokio::test]
async fn a_growth_to_the_end_of_the_map_is_repeated_and_finished() {
    let nodes = grown().await;
    let grow = async || admin(&nodes.rows(), 4).shards().grow(count(6), |_| ()).await.unwrap();
    let again = grow().await;
    assert_eq!((again.added, again.raised), (0, 0));
    // As after an interruption behind the first of the old shards.
    for (shard, node) in [(1, 0), (2, 1), (3, 1)] {
        let (key, layout) = (format!("{{dq:{shard}}}:meta"), ["1@a", "1@b"][node]);
        let before = ["HSET", &key, "layout", layout, "counts", "4", "shards", "4"];
        nodes.servers[node].command::<u32>(&before).await;
    }
    let finished = grow().await;
    assert_eq!((finished.added, finished.raised), (0, 3));
    assert_eq!(layouts(&nodes).await, WHOLE);
}

#[tokio::test]
async fn no_shard_is_created_while_a_node_does_not_say_whether_it_has_it() {
    let mut nodes = RedisNodes::start(2).await;
    let row = |name: &str, server: usize, shards: &str| {
        [name.to_owned(), nodes.servers[server].url(), shards.to_owned()]
    };
    let right = [row("c", 2, "0-1"), row("b", 1, "2-3")];
    let wrong = [row("a", 0, "0-1"), row("b", 1, "2-3"), row("c", 2, "4-5")];
    let _ = created(settings(&right, 4)).await;
    nodes.servers[2].kill().await;
    let error = admin(&wrong, 4).init().await.unwrap_err();
    assert!(error.is_outage() && error.to_string().contains("c (redis://"), "{error}");
    assert_eq!(keys(&nodes.servers[0]).await, 0);
    nodes.servers[2].resume().await;
    let error = admin(&wrong, 4).init().await.unwrap_err().to_string();
    assert!(error.contains("shard 0 is on node c, not on node a"), "{error}");
}

#[tokio::test]
async fn no_shard_is_added_while_a_node_does_not_say_whether_it_has_it() {
    let mut nodes = RedisNodes::start(2).await;
    let _ = created(settings(&nodes.rows()[..2], 4)).await;
    let begun: &[&str] =
        &["HSET", "{dq:4}:meta", "layout", "2@c", "shard", "4", "counts", "4,6", "shards", "6"];
    nodes.servers[2].command::<u32>(begun).await;
    nodes.servers[2].kill().await;
    let mut wrong = nodes.rows();
    (wrong[1][2], wrong[2][2]) = ("2-5".to_owned(), "6-7".to_owned());
    let error = admin(&wrong, 4).shards().grow(count(6), |_| ()).await.unwrap_err();
    assert!(error.is_outage() && error.to_string().contains("c (redis://"), "{error}");
    assert_eq!(keys(&nodes.servers[1]).await, 2, "the registries of shards 2 and 3");
}
