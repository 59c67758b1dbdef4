//! A Redis Cluster: each shard at the node that has its slot, also while slots move and masters die.

mod away;
mod clocks;
mod failover;
mod laden;
mod listening;
mod moving;
mod pumping;
mod scene;
mod steady;
mod walking;

use crate::redis_cluster::scene::{SHARDS, message, slot, topic};
use delayq::{Client, Error, Fate, LinkSettings, Namespace, Producer, ProducerOptions, Settings};
use delayq_tests::deployment::{created, lives, settings};
use delayq_tests::redis_cluster::RedisCluster;
use delayq_tests::redis_server::RedisServer;

#[tokio::test]
async fn each_shard_lives_at_its_node_from_put_to_ack() {
    let cluster = RedisCluster::start().await;
    assert_eq!(cluster.slot("{dq:7}:meta").await, slot(7));
    let (client, admin, producer) = created(settings(cluster.url(), SHARDS)).await;
    admin.check_server().await.unwrap();
    let nodes = admin.nodes().check().await.unwrap();
    assert_eq!(nodes.iter().map(|node| node.shards.len()).sum::<usize>(), usize::from(SHARDS));
    assert_eq!(nodes.len(), 3);
    for (node, server) in nodes.iter().zip(0..) {
        for shard in &node.shards {
            let master = cluster.master_of(slot(shard.get())).await;
            assert_eq!(cluster.nodes[master].address(), node.address, "{server}");
        }
    }
    lives(&client, &admin, &producer, &topic()).await;
    assert_eq!(admin.namespaces().await.unwrap(), [Namespace::default()]);
}

#[tokio::test]
async fn the_wrong_kind_of_url_is_refused_with_the_right_one() {
    let (cluster, single) = (RedisCluster::start().await, RedisServer::private().await);
    let error = Client::connect(Settings::new(cluster.nodes[0].url())).await.unwrap_err().to_string();
    assert!(error.contains("redis+cluster://host:port"), "{error}");
    let url = format!("redis+cluster://{}", single.address());
    let error = Client::connect(Settings::new(url)).await.unwrap_err();
    let Error::Unfit(why) = &error else { panic!("{error:?}") };
    assert!(why.contains("cluster support disabled") && why.contains("redis://"), "{error}");
}

#[tokio::test]
async fn a_user_that_may_not_ask_who_has_which_slot_is_told_so_and_no_outage_is_seen() {
    let cluster = RedisCluster::start().await;
    for node in &cluster.nodes {
        node.command::<()>(&["ACL", "SETUSER", "poor", "on", ">word", "~*", "&*", "+@all", "-cluster"]).await;
    }
    let link = LinkSettings::new(cluster.url()).username("poor").password("word");
    let producer = Producer::start(Client::new(settings(link, SHARDS)), ProducerOptions::default());
    let error = producer.put(message("x")).await.unwrap_err().error;
    assert!(matches!(&error, Error::Unfit(why) if why.contains("delayq acl print")), "{error}");
    assert_eq!((error.fate(), error.is_outage()), (Fate::NotApplied, false));
}
