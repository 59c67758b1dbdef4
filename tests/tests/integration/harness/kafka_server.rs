//! The private Kafka broker.

use delayq_tests::kafka_server::KafkaServer;
use delayq_tests::shared::{kafka, namespace};
use std::process::Command;

/// The topic, as reported by the independent client kcat.
fn metadata(server: &KafkaServer, topic: &str) -> String {
    let output = Command::new("kcat").args(["-b", &server.address(), "-L", "-t", topic]).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::test]
async fn it_answers_before_and_after_a_kill_and_keeps_its_topics() {
    let mut server = KafkaServer::start().await;
    server.create_topic("kept", 3, &[]).await;
    server.kill().await;
    server.resume().await;
    assert!(metadata(&server, "kept").contains("topic \"kept\" with 3 partitions"));
}

#[tokio::test]
async fn a_topics_settings_hold() {
    let (server, topic) = (kafka().await, namespace());
    server.create_topic(&topic, 1, &[("max.message.bytes", "1000")]).await;
    let body = std::env::temp_dir().join(format!("{topic}.body"));
    std::fs::write(&body, "x".repeat(5_000)).unwrap();
    let mut kcat = Command::new("kcat");
    kcat.args(["-b", &server.address(), "-P", "-t", &topic]).arg(&body);
    let output = kcat.output().unwrap();
    std::fs::remove_file(body).unwrap();
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(words.contains("Message size too large"), "{words}");
}

#[tokio::test]
#[should_panic(expected = "(code 36): Topic 'twice' already exists.")]
async fn a_topic_that_is_there_is_refused_in_the_brokers_words() {
    let server = kafka().await;
    for _ in 0..2 {
        server.create_topic("twice", 1, &[]).await;
    }
}
