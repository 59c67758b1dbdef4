//! Servers shared by the tests of one process, or given by the environment.
//!
//! A shared server holds the data of other tests: keep to your own [`namespace`], and break nothing. A test that stops,
//! freezes or fills a server starts its own.

use crate::environment::{RedisShape, given_etcd_endpoints, given_redis_url, redis_shape};
use crate::etcd_server::EtcdCluster;
use crate::kafka_server::KafkaServer;
use crate::nats_server::NatsServer;
use crate::rabbitmq_server::RabbitmqServer;
use crate::redis_server::{RedisServer, claim_cluster};
use std::sync::atomic::{AtomicU32, Ordering};
use tokio::sync::OnceCell;

static REDIS: OnceCell<(String, Option<RedisServer>)> = OnceCell::const_new();
static ETCD: OnceCell<(Vec<String>, Option<EtcdCluster>)> = OnceCell::const_new();
static KAFKA: OnceCell<KafkaServer> = OnceCell::const_new();
static NATS: OnceCell<NatsServer> = OnceCell::const_new();
static RABBITMQ: OnceCell<RabbitmqServer> = OnceCell::const_new();
static NAMESPACES: AtomicU32 = AtomicU32::new(0);

/// The URL of the shared Redis: `DELAYQ_TEST_REDIS_URL`, or a server started on first use.
pub async fn redis_url() -> &'static str {
    let (url, _) = REDIS
        .get_or_init(|| async {
            match given_redis_url() {
                Some(url) => {
                    if redis_shape() == RedisShape::Cluster {
                        claim_cluster(&url).await;
                    }
                    (url, None)
                }
                None => {
                    let server = RedisServer::private().await;
                    (server.url(), Some(server))
                }
            }
        })
        .await;
    url
}

/// The endpoints of the shared etcd: `DELAYQ_TEST_ETCD_ENDPOINTS`, or a server started on first use.
pub async fn etcd_endpoints() -> &'static [String] {
    let (endpoints, _) = ETCD
        .get_or_init(|| async {
            match given_etcd_endpoints() {
                Some(endpoints) => (endpoints, None),
                None => {
                    let etcd = EtcdCluster::start_one().await;
                    (etcd.endpoints(), Some(etcd))
                }
            }
        })
        .await;
    endpoints
}

/// The shared Kafka broker, started on first use.
pub async fn kafka() -> &'static KafkaServer {
    KAFKA.get_or_init(KafkaServer::start).await
}

/// The shared nats-server with JetStream, started on first use.
pub async fn nats() -> &'static NatsServer {
    NATS.get_or_init(|| NatsServer::start(&[])).await
}

/// The shared RabbitMQ, started on first use.
pub async fn rabbitmq() -> &'static RabbitmqServer {
    RABBITMQ.get_or_init(RabbitmqServer::start).await
}

/// A name unique on every shared server: letters, digits and dashes, at most 24.
#[must_use]
pub fn namespace() -> String {
    let number = NAMESPACES.fetch_add(1, Ordering::Relaxed);
    // The process id alone repeats on a server that outlives many runs.
    format!("t{}-{number}-{:08x}", std::process::id(), seed())
}

/// Differs between runs: the standard library keys its hash maps with random numbers.
pub(crate) fn seed() -> u32 {
    use std::hash::{BuildHasher as _, RandomState};
    static SEED: std::sync::OnceLock<u32> = std::sync::OnceLock::new();
    *SEED.get_or_init(|| (RandomState::new().hash_one(0_u8) >> 32) as u32)
}
