//! The beats of the gateways that run: each gateway writes a text under its own name, and reads those of all.

use super::GatewaysAdmin;
use crate::error::Error;
use std::collections::BTreeMap;

// === impl GatewaysAdmin ===

impl GatewaysAdmin<'_> {
    /// Writes the text of the gateway `name`. Returns the latest text of every gateway, also of gateways that have ended.
    ///
    /// # Errors
    /// Redis cannot be used, or the deployment does not exist. Safe to repeat.
    pub async fn beat(self, name: &str, text: &str) -> Result<BTreeMap<String, String>, Error> {
        self.admin.client.calls.layout().await?;
        let mut hset = self.on("HSET", "beats");
        hset.arg(name).arg(text);
        let () = self.ask_notes("HSET", &hset).await?;
        self.ask_notes("HGETALL", &self.on("HGETALL", "beats")).await
    }

    /// Removes the texts of gateways that have ended.
    ///
    /// # Errors
    /// Redis cannot be used. Safe to repeat.
    pub async fn forget_beats(self, names: &[String]) -> Result<(), Error> {
        if names.is_empty() {
            return Ok(());
        }
        let mut hdel = self.on("HDEL", "beats");
        hdel.arg(names);
        self.ask_notes("HDEL", &hdel).await
    }
}
