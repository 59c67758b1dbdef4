//! A namespace of its own for each test, in the etcd that the tests share.

use crate::fleet::config;
use delayq::Namespace;
use delayq_cluster::ClusterConfig;
use delayq_tests::shared;

pub(crate) struct Scope {
    endpoints: Vec<String>,
    namespace: Namespace,
}

impl Scope {
    pub(crate) async fn shared() -> Self {
        let namespace = Namespace::new(shared::namespace()).unwrap();
        Self { endpoints: shared::etcd_endpoints().await.to_vec(), namespace }
    }

    pub(crate) fn config(&self, name: &str, shards: u16) -> ClusterConfig {
        ClusterConfig { namespace: self.namespace.clone(), ..config(&self.endpoints, name, shards) }
    }

    pub(crate) fn key(&self, rest: &str) -> String {
        format!("/delayq/{}/timer/{rest}", self.namespace)
    }

    pub(crate) async fn tool(&self) -> etcd_client::Client {
        etcd_client::Client::connect(&self.endpoints, None).await.unwrap()
    }
}
