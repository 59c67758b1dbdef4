//! The private PostgreSQL: leftovers after a kill.

use delayq_tests::deadline::{SHORT, wait_until};
use delayq_tests::postgres_server::PostgresServer;
use std::fs;

/// True if the system has this System V segment.
fn is_there(segment: u32) -> bool {
    let segments = fs::read_to_string("/proc/sysvipc/shm").unwrap();
    segments.lines().any(|line| line.split_whitespace().nth(1) == Some(&segment.to_string()))
}

#[tokio::test]
async fn a_killed_server_leaves_no_shared_memory_and_starts_again() {
    let mut server = PostgresServer::start().await;
    server.run("CREATE TABLE kept (n int)");
    let segment = server.segment();
    assert!(is_there(segment));
    let maps = fs::read_to_string(format!("/proc/{}/maps", server.id())).unwrap();
    assert!(!maps.contains("/dev/shm/"), "{maps}");
    server.kill().await;
    wait_until("the end of its segment", SHORT, || std::future::ready(!is_there(segment))).await;
    server.resume().await;
    server.run("INSERT INTO kept VALUES (1)");
}
