//! A server's replicas: whether they follow, and have all that it has.

use super::RedisServer;
use crate::deadline::{LONG, wait_until};

// === impl RedisServer ===

impl RedisServer {
    /// A replica of it with the same settings, once it has its data.
    ///
    /// # Panics
    /// If it does not get it.
    pub async fn replica(&self) -> Self {
        self.command::<()>(&["CONFIG", "SET", "repl-diskless-sync-delay", "0"]).await;
        let followers = self.followers().await + 1;
        let replica = Self::start_with(self.options.clone().replica_of(self)).await;
        let follows = async || self.followers().await == followers;
        wait_until("the replica to follow", LONG, follows).await;
        replica
    }

    /// How many replicas are sent each write. (A replica calls its link up as soon as it has the data, but is sent nothing
    /// before it has acknowledged that, within a second.)
    pub async fn followers(&self) -> usize {
        let info: String = self.try_command(&["INFO", "replication"]).await.unwrap_or_default();
        let follows = |line: &&str| line.contains(",state=online,") && !line.contains(",offset=0,");
        info.lines().filter(follows).count()
    }
}

/// Waits until the replicas of one of these servers have all that it has. (WAIT on a connection that has written nothing waits
/// for nothing.)
///
/// # Panics
/// If they do not in time, and if it has none.
pub async fn replicated(servers: &[RedisServer], master: usize) {
    let port = servers[master].announced_port().to_string();
    wait_until("the replicas to have what their master has", LONG, async || {
        let written = servers[master].field("master_repl_offset").await;
        let mut replicas = 0;
        for server in servers {
            if server.field("master_port").await == port {
                replicas += 1;
                if server.field("slave_repl_offset").await != written {
                    return false;
                }
            }
        }
        replicas > 0
    })
    .await;
}
