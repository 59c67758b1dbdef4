//! The tenants of a deployment and their tokens: texts by name in a hash of shard 0, with a version that every change renews.

use super::GatewaysAdmin;
use crate::error::Error;
use std::collections::BTreeMap;

/// The field with the version. No tenant has this name.
const VERSION: &str = "";

// === impl GatewaysAdmin ===

impl GatewaysAdmin<'_> {
    /// Returns the version of the tenants; `None`: there was never a tenant.
    ///
    /// # Errors
    /// Redis cannot be used.
    pub async fn tenants_version(self) -> Result<Option<String>, Error> {
        let mut hget = self.on("HGET", "tenants");
        hget.arg(VERSION);
        self.ask_notes("HGET", &hget).await
    }

    /// Returns the version of the tenants, and their texts by name.
    ///
    /// # Errors
    /// Redis cannot be used.
    pub async fn tenants(self) -> Result<(Option<String>, BTreeMap<String, String>), Error> {
        let all: BTreeMap<String, String> = self.ask_notes("HGETALL", &self.on("HGETALL", "tenants")).await?;
        let version = all.get(VERSION).cloned();
        // An empty text stands for a removed one.
        let texts = all.into_iter().filter(|(name, text)| name != VERSION && !text.is_empty()).collect();
        Ok((version, texts))
    }

    /// Writes texts, or removes them where there is `None`, and renews the version in the same step.
    ///
    /// # Errors
    /// Redis cannot be used, or the deployment does not exist. Safe to repeat.
    pub async fn change_tenants(
        self,
        version: &str,
        changes: &[(String, Option<String>)],
    ) -> Result<(), Error> {
        self.admin.client.calls.layout().await?;
        let mut hset = self.on("HSET", "tenants");
        hset.arg(VERSION).arg(version);
        for (name, text) in changes {
            hset.arg(name).arg(text.as_deref().unwrap_or_default());
        }
        let () = self.ask_notes("HSET", &hset).await?;
        let removed: Vec<&String> =
            changes.iter().filter(|(_, text)| text.is_none()).map(|(name, _)| name).collect();
        if removed.is_empty() {
            return Ok(());
        }
        let mut hdel = self.on("HDEL", "tenants");
        hdel.arg(removed);
        self.ask_notes("HDEL", &hdel).await
    }
}
