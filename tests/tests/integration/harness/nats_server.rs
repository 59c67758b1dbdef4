//! The private nats-server.

use delayq_tests::nats_server::NatsServer;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::net::TcpStream;

#[tokio::test]
async fn it_greets_with_jetstream_before_and_after_a_kill() {
    let mut server = NatsServer::start(&[]).await;
    for _ in 0..2 {
        let mut greeting = String::new();
        let stream = TcpStream::connect(server.address()).await.unwrap();
        BufReader::new(stream).read_line(&mut greeting).await.unwrap();
        assert!(greeting.starts_with("INFO ") && greeting.contains("\"jetstream\":true"), "{greeting}");
        server.kill().await;
        server.resume().await;
    }
}
