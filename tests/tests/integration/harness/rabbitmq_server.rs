//! The private RabbitMQ.

use delayq_tests::deadline::{LONG, within};
use delayq_tests::rabbitmq_server::RabbitmqServer;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Sends the protocol header; a live server answers with a method frame (1) on channel 0: Connection.Start (10, 10).
async fn greet(stream: &mut TcpStream) {
    stream.write_all(b"AMQP\x00\x00\x09\x01").await.unwrap();
    let mut frame = [0; 11];
    stream.read_exact(&mut frame).await.unwrap();
    assert_eq!((frame[0], &frame[7..]), (1, &[0, 10, 0, 10][..]));
}

async fn connect(server: &RabbitmqServer) -> TcpStream {
    TcpStream::connect(server.address()).await.unwrap()
}

/// `stop` and `kill` wait until the process and its port are gone: what they break needs no test.
#[tokio::test]
async fn a_frozen_broker_does_not_answer_and_a_thawed_one_does() {
    let server = RabbitmqServer::start().await;
    greet(&mut connect(&server).await).await;
    server.freeze();
    // The kernel accepts the connection.
    let mut stream = connect(&server).await;
    let mut greeting = tokio::spawn(async move { greet(&mut stream).await });
    assert!(tokio::time::timeout(Duration::from_millis(300), &mut greeting).await.is_err());
    server.thaw();
    within("a thawed server's greeting", LONG, greeting).await.unwrap();
}
