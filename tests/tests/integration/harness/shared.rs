//! Servers shared by tests, or given by the environment.

use delayq_tests::shared::{etcd_endpoints, kafka, namespace, nats, rabbitmq, redis_url};

#[tokio::test]
async fn every_test_gets_the_same_redis() {
    let (one, two) = tokio::join!(redis_url(), redis_url());
    assert_eq!(one, two);
    let client = redis::Client::open(one).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    let key = format!("{{{}:0}}:meta", namespace());
    let () = redis::cmd("SET").arg(&key).arg("v").query_async(&mut connection).await.unwrap();
    let () = redis::cmd("UNLINK").arg(&key).query_async(&mut connection).await.unwrap();
}

#[tokio::test]
async fn every_test_gets_the_same_etcd() {
    let (one, two) = tokio::join!(etcd_endpoints(), etcd_endpoints());
    assert_eq!(one, two);
    assert!(!one.is_empty());
}

#[tokio::test]
async fn every_test_gets_the_same_brokers() {
    let (one, two) = tokio::join!(kafka(), kafka());
    assert!(std::ptr::eq(one, two));
    let (one, two) = tokio::join!(nats(), nats());
    assert!(std::ptr::eq(one, two));
    let (one, two) = tokio::join!(rabbitmq(), rabbitmq());
    assert!(std::ptr::eq(one, two));
}

#[test]
fn a_namespace_is_given_once_and_short() {
    let (one, two) = (namespace(), namespace());
    assert_ne!(one, two);
    assert!(one.len() <= 24, "{one}");
}
