//! Starts a redis-server, says where, and waits to be killed: what the janitor's test kills.

use delayq_tests::redis_server::RedisServer;

#[tokio::main]
async fn main() {
    let server = RedisServer::private().await;
    println!("{} {}", server.id(), server.folder().display());
    let mut word = String::new();
    // Returns at once when there is no input: the test gives none and kills, a person may press a key.
    let _ = std::io::stdin().read_line(&mut word);
    if word.is_empty() {
        std::future::pending::<()>().await;
    }
}
