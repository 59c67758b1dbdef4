//! The private redis-server: stops, kills, freezes, limits.

use delayq_tests::deadline::{SHORT, within};
use delayq_tests::redis_server::{RedisOptions, RedisServer};
use std::time::Duration;

#[tokio::test]
async fn data_in_the_append_only_file_outlives_a_kill() {
    let mut server = RedisServer::start_with(RedisOptions::default().append_only("always")).await;
    let () = server.command(&["SET", "k", "v"]).await;
    server.kill_and_resume().await;
    assert_eq!(server.command::<String>(&["GET", "k"]).await, "v");
}

#[tokio::test]
async fn without_persistence_a_restart_is_empty() {
    let mut server = RedisServer::private().await;
    let () = server.command(&["SET", "k", "v"]).await;
    assert!(server.stop().await.success());
    server.resume().await;
    assert_eq!(server.command::<Option<String>>(&["GET", "k"]).await, None);
}

#[tokio::test]
async fn a_wiped_server_comes_back_empty() {
    let mut server = RedisServer::start_with(RedisOptions::default().append_only("always")).await;
    let () = server.command(&["SET", "k", "v"]).await;
    server.kill().await;
    server.wipe();
    server.resume().await;
    assert_eq!(server.command::<u64>(&["DBSIZE"]).await, 0);
}

#[tokio::test]
async fn a_frozen_server_answers_once_it_is_thawed() {
    let server = RedisServer::private().await;
    let mut connection = server.connect().await;
    server.freeze();
    let mut ping =
        tokio::spawn(async move { redis::cmd("PING").query_async::<String>(&mut connection).await });
    assert!(tokio::time::timeout(Duration::from_millis(100), &mut ping).await.is_err());
    server.thaw();
    // The client's own deadline may have passed; ask the server again.
    let _ = ping.await;
    assert_eq!(within("a thawed server's answer", SHORT, server.command::<String>(&["PING"])).await, "PONG");
}

#[tokio::test]
async fn a_password_is_asked_for_and_given() {
    let server = RedisServer::start_with(RedisOptions::default().password("s3cret")).await;
    assert_eq!(server.command::<String>(&["PING"]).await, "PONG");
    for url in [server.url(), server.socket_url()] {
        let client = redis::Client::open(url).unwrap();
        client.get_multiplexed_async_connection().await.unwrap();
    }
    let stranger = redis::Client::open(format!("redis://{}/", server.address())).unwrap();
    let mut stranger = stranger.get_multiplexed_async_connection().await.unwrap();
    let refused = redis::cmd("PING").query_async::<String>(&mut stranger).await.unwrap_err();
    assert_eq!(refused.code(), Some("NOAUTH"));
}

#[tokio::test]
async fn a_full_server_refuses_writes() {
    let server = RedisServer::start_with(RedisOptions::default().max_memory_bytes(1)).await;
    let mut connection = server.connect().await;
    let refused = redis::cmd("SET").arg("k").arg("v").query_async::<()>(&mut connection).await.unwrap_err();
    assert_eq!(refused.code(), Some("OOM"));
}

#[tokio::test]
async fn a_cluster_of_one_serves_every_slot() {
    let server = RedisServer::start_with(RedisOptions::default().cluster()).await;
    let () = server.command(&["SET", "{dq:7}:meta", "v"]).await;
    let () = server.command(&["SET", "{dq:8}:meta", "v"]).await;
    assert_eq!(server.command::<u64>(&["DBSIZE"]).await, 2);
}
