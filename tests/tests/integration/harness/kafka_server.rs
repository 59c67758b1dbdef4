//! The private Kafka broker.

use delayq_tests::kafka_server::KafkaServer;

#[tokio::test]
async fn it_answers_before_and_after_a_kill() {
    let mut server = KafkaServer::start().await;
    server.kill().await;
    server.resume().await;
}
