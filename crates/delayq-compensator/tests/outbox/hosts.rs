//! A database of several hosts.

use crate::stand::{Stand, put};
use delayq_service::config::Secret;
use tokio::net::TcpListener;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_that_accepts_and_is_silent_is_passed_over() {
    let mut stand = Stand::start().await;
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = stand.postgres.url();
    let (user, host) = url.split_once('@').unwrap();
    stand.config.url = Some(Secret::plain(format!("{user}@{},{host}", silent.local_addr().unwrap())));
    let reader = stand.read();
    stand.database().await.batch_execute(&put(0..5)).await.unwrap();
    stand.is_settled(5).await;
    reader.end().await;
}
