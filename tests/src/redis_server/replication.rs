//! A server's replicas: connection state, and completeness of data.

use super::RedisServer;
use crate::deadline::{LONG, wait_until};

// === impl RedisServer ===

impl RedisServer {
    /// Starts a replica with the same settings, and waits for its data.
    pub async fn replica(&self) -> Self {
        self.command::<()>(&["CONFIG", "SET", "repl-diskless-sync-delay", "0"]).await;
        let followers = self.followers().await + 1;
        let replica = Self::start_with(self.options.clone().replica_of(self)).await;
        let follows = async || self.followers().await == followers;
        wait_until("the replica to follow", LONG, follows).await;
        replica
    }

    /// Number of replicas that receive each write. (A replica reports its link as up once it has the data, but receives
    /// nothing until its first acknowledgement, within a second.)
    pub async fn followers(&self) -> usize {
        let info: String = self.try_command(&["INFO", "replication"]).await.unwrap_or_default();
        let follows = |line: &&str| line.contains(",state=online,") && !line.contains(",offset=0,");
        info.lines().filter(follows).count()
    }
}

/// Waits until the master's replicas among these servers have all its data. (WAIT on a connection without writes waits
/// for nothing.)
pub async fn replicated(servers: &[RedisServer], master: usize) {
    let port = servers[master].announced_port().to_string();
    wait_until("the replicas to have what their master has", LONG, async || {
        let Some(written) = offset(&servers[master], "master_repl_offset").await else { return false };
        let mut replicas = 0;
        for server in servers {
            if server.field("master_port").await == port {
                replicas += 1;
                // While clients write, a replica may be ahead of the offset that was read before.
                if offset(server, "slave_repl_offset").await.is_none_or(|offset| offset < written) {
                    return false;
                }
            }
        }
        replicas > 0
    })
    .await;
}

async fn offset(server: &RedisServer, field: &str) -> Option<u64> {
    server.field(field).await.parse().ok()
}
