//! Starts a redis-server, prints its address, and waits: the janitor's test kills this process.

use delayq_tests::redis_server::RedisServer;

#[tokio::main]
async fn main() {
    let server = RedisServer::private().await;
    println!("{} {}", server.id(), server.folder().display());
    let mut word = String::new();
    // The test gives no input, so the read returns at once; a person may press a key.
    let _ = std::io::stdin().read_line(&mut word);
    if word.is_empty() {
        std::future::pending::<()>().await;
    }
}
