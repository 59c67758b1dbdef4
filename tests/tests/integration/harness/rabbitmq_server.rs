//! The private RabbitMQ.

use delayq_tests::rabbitmq_server::RabbitmqServer;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

#[tokio::test]
async fn it_speaks_amqp_before_and_after_a_restart() {
    let mut server = RabbitmqServer::start().await;
    for _ in 0..2 {
        let mut stream = TcpStream::connect(server.address()).await.unwrap();
        stream.write_all(b"AMQP\x00\x00\x09\x01").await.unwrap();
        let mut frame = [0; 11];
        stream.read_exact(&mut frame).await.unwrap();
        // A method frame (1) on channel 0 with Connection.Start (10, 10).
        assert_eq!((frame[0], &frame[7..]), (1, &[0, 10, 0, 10][..]));
        server.stop().await;
        server.resume().await;
    }
}
