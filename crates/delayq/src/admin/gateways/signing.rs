//! The key that the gateways of a deployment use to sign receipts: one shared key, kept in Redis.

use super::GatewaysAdmin;
use crate::error::Error;
use delayq_core::shard::ShardId;

/// The shard of the key: every deployment has shard 0.
const SHARD: ShardId = ShardId::new(0);
const FIELD: &str = "receipt_key";

// === impl GatewaysAdmin ===

impl GatewaysAdmin<'_> {
    /// Returns the deployment's key for signing receipts; `fresh` becomes the key if the deployment has no key yet.
    /// Safe to call concurrently from several processes: all processes get the same key.
    ///
    /// # Errors
    /// Redis cannot be used.
    pub async fn signing_key(self, fresh: &str) -> Result<String, Error> {
        let (link, meta) =
            (self.admin.client.calls.link_of(SHARD).await?, self.admin.client.calls.keys().meta(SHARD));
        let mut hget = redis::cmd("HGET");
        hget.arg(&meta).arg(FIELD);
        if let Some(key) = link.query::<Option<String>>("HGET", &hget).await? {
            return Ok(key);
        }
        // Without a deployment, no shard could keep the key.
        self.admin.client.calls.layout().await?;
        let mut hsetnx = redis::cmd("HSETNX");
        hsetnx.arg(&meta).arg(FIELD).arg(fresh);
        let () = link.query("HSETNX", &hsetnx).await?;
        let key: Option<String> = link.query("HGET", &hget).await?;
        key.ok_or(Error::Uninitialised(SHARD))
    }
}
