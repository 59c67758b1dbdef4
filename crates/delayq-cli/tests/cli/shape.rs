//! All of delayq while its one Redis becomes the master of a Sentinel group, or a Redis Cluster.

use crate::flow::{Flow, Load, SERVICES, delayq};
use delayq::{Client, Producer, ProducerOptions};
use delayq_tests::deadline::{LONG, SHORT, wait_for_ok};
use delayq_tests::deployment::settings;
use delayq_tests::outages::{Window, now_ms};
use delayq_tests::redis_cluster::RedisCluster;
use delayq_tests::redis_server::{RedisOptions, RedisServer};
use delayq_tests::sentinel::SERVICE;
use delayq_tests::sentinel_group::SentinelGroup;

const SHARDS: u16 = 6;

fn section(url: &str) -> String {
    format!("[redis]\nurl = '{url}'\n")
}

fn producer(url: &str) -> Producer {
    Producer::start(Client::new(settings(url, SHARDS)), ProducerOptions::default())
}

async fn redis() -> RedisServer {
    let options = RedisOptions::default().append_only("everysec").set("repl-diskless-sync-delay", "0");
    RedisServer::start_with(options).await
}

async fn under_load(redis: &RedisServer) -> (Flow, Load) {
    let url = redis.url();
    let (flow, producer) = (Flow::start(&section(&url), settings(&*url, SHARDS)).await, producer(&url));
    flow.flows(&producer, "begin").await;
    (flow, Load::start(producer))
}

/// Gives each process the new URL in turn, while the other processes use the former URL.
async fn turn(flow: &mut Flow, load: &Load, before: &str, after: &str) {
    wait_for_ok("a doctor that finds nothing bad", LONG, async || {
        let doctor = delayq(&flow.configuration, &["--redis", after, "doctor"]).run(b"", SHORT).await;
        if doctor.code == Some(0) { Ok(()) } else { Err(format!("{doctor:?}")) }
    })
    .await;
    let (former, next) = (producer(before), producer(after));
    flow.rewrite(&section(before), &section(after));
    for service in 0..SERVICES.len() {
        flow.restart_service(service).await;
        flow.flows(&former, &format!("former-{service}")).await;
        flow.flows(&next, &format!("next-{service}")).await;
    }
    load.turn_to(next.clone());
    flow.flows(&former, "former-worker").await;
    flow.restart_worker(settings(after, SHARDS)).await;
    flow.flows(&former, "former").await;
    flow.flows(&next, "next").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_redis_becomes_the_master_of_sentinels_under_load_and_only_the_failover_costs_anything() {
    let redis = redis().await;
    let before = redis.url();
    let (mut flow, load) = under_load(&redis).await;
    let group = SentinelGroup::around(redis, "").await;
    turn(&mut flow, &load, &before, &group.url()).await;

    let broken = now_ms();
    group.sentinels[0].command::<()>(&["SENTINEL", "FAILOVER", SERVICE]).await;
    group.master_after(0).await;
    group.demoted(0).await;
    flow.flows(&producer(&group.url()), "failed-over").await;
    flow.check(load, &[Window::since(broken)]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_redis_becomes_a_cluster_under_load_and_nothing_is_lost() {
    let mut redis = redis().await;
    let before = redis.url();
    let (mut flow, load) = under_load(&redis).await;

    let broken = now_ms();
    redis.stop().await;
    redis.turn_into_cluster();
    redis.resume().await;
    flow.flows(&producer(&before), "one-node").await;
    let away = Window::since(broken);
    let mut cluster = RedisCluster::of_one(redis).await;
    turn(&mut flow, &load, &before, &cluster.url()).await;

    cluster.add_two().await;
    let next = producer(&cluster.url());
    for shard in (0..SHARDS).filter(|shard| shard % 3 != 0) {
        let slot = cluster.slot(&format!("{{dq:{shard}}}:meta")).await;
        cluster.move_slot(slot, usize::from(shard % 3)).await;
        flow.flows(&next, &format!("moved-{shard}")).await;
    }
    flow.check_losses(load, &[], &[away]).await;
}
