//! Refusals of an unfit Redis at start, and reports of a Redis that becomes unfit later.

use delayq::{Client, Settings};
use delayq_service::codes::redis::SERVER_UNFIT;
use delayq_service::{Fitness, Readiness, Shutdown};
use delayq_tests::deadline::{LONG, wait_until};
use delayq_tests::redis_server::{RedisOptions, RedisServer};
use std::time::Duration;

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_that_evicts_is_refused_by_every_service() {
    let options = RedisOptions::default().set("maxmemory-policy", "allkeys-lru");
    let server = RedisServer::start_with(options).await;
    let client = Client::new(Settings::new(server.url()));
    let required = Fitness::required(&client, &Readiness::new()).await.unwrap_err();
    let waiting = Fitness::if_there(&client, &Readiness::new()).await.unwrap_err();
    for fault in [required, waiting] {
        assert_eq!((fault.code(), fault.exit().code()), (&SERVER_UNFIT, 69));
        assert!(fault.to_string().contains("allkeys-lru"), "{fault}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_that_is_away_is_refused_by_those_alone_that_cannot_wait() {
    let nowhere = format!("redis://127.0.0.1:{}", delayq_tests::ports::free_port());
    let client = Client::new(Settings::new(nowhere));
    assert_eq!(Fitness::required(&client, &Readiness::new()).await.unwrap_err().exit().code(), 69);
    Fitness::if_there(&client, &Readiness::new()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_that_becomes_unfit_makes_its_services_unready_until_it_is_mended() {
    let server = RedisServer::private().await;
    let (client, readiness, shutdown) =
        (Client::new(Settings::new(server.url())), Readiness::new(), Shutdown::new());
    let fitness = Fitness::required(&client, &readiness).await.unwrap().every(Duration::from_millis(10));
    assert_eq!(readiness.unready(), []);
    let watching = tokio::spawn(fitness.watch(shutdown.clone()));
    server.command::<()>(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]).await;
    wait_until("it is unready", LONG, async || {
        readiness.unready().iter().any(|unready| unready.reason.contains("allkeys-lru"))
    })
    .await;
    server.command::<()>(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]).await;
    wait_until("it is ready again", LONG, async || readiness.unready().is_empty()).await;
    shutdown.request();
    watching.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_with_a_spool_stays_ready_while_redis_is_away_but_not_with_an_unfit_one() {
    let mut server = RedisServer::private().await;
    server.kill().await;
    let (client, readiness, shutdown) =
        (Client::new(Settings::new(server.url())), Readiness::new(), Shutdown::new());
    let fitness = Fitness::if_there(&client, &readiness).await.unwrap().every(Duration::from_millis(10));
    assert!(!readiness.unready().is_empty());
    let watching = tokio::spawn(fitness.bridged().watch(shutdown.clone()));
    wait_until("it is ready", LONG, async || readiness.unready().is_empty()).await;
    server.resume().await;
    server.command::<()>(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]).await;
    wait_until("it is unready", LONG, async || !readiness.unready().is_empty()).await;
    server.kill().await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(readiness.unready()[0].reason.contains("allkeys-lru"), "{:?}", readiness.unready());
    server.resume().await;
    wait_until("it is ready again", LONG, async || readiness.unready().is_empty()).await;
    shutdown.request();
    watching.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_that_refuses_the_writing_probe_makes_an_idle_service_unready() {
    let server = RedisServer::private().await;
    let (client, readiness, shutdown) =
        (Client::new(Settings::new(server.url())), Readiness::new(), Shutdown::new());
    let fitness = Fitness::required(&client, &readiness).await.unwrap().every(Duration::from_millis(10));
    let watching = tokio::spawn(fitness.watch(shutdown.clone()));
    server.command::<()>(&["CONFIG", "SET", "min-replicas-to-write", "1"]).await;
    wait_until("it is unready", LONG, async || {
        readiness.unready().iter().any(|unready| unready.reason.contains("a probe of Redis failed"))
    })
    .await;
    server.command::<()>(&["CONFIG", "SET", "min-replicas-to-write", "0"]).await;
    wait_until("it is ready again", LONG, async || readiness.unready().is_empty()).await;
    shutdown.request();
    watching.await.unwrap().unwrap();
}
