//! Servers shared by tests, or given by the environment.

use delayq_tests::shared::{etcd_endpoints, namespace, redis_url};

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

#[test]
fn a_namespace_is_given_once_and_short() {
    let (one, two) = (namespace(), namespace());
    assert_ne!(one, two);
    assert!(one.len() <= 24, "{one}");
}
