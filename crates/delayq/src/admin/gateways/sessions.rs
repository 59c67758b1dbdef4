//! The sessions of people with the gateways: texts with an end, each under a key of its own in shard 0.

use super::GatewaysAdmin;
use crate::error::Error;
use std::time::Duration;

// === impl GatewaysAdmin ===

impl GatewaysAdmin<'_> {
    /// Begins a session, which ends after `idle` without a look. Returns false, and changes nothing, if the name exists.
    ///
    /// # Errors
    /// Redis cannot be used, or the deployment does not exist.
    pub async fn new_session(self, name: &str, text: &str, idle: Duration) -> Result<bool, Error> {
        self.admin.client.calls.layout().await?;
        let mut set = self.on("SET", &key(name));
        set.arg(text).arg("PX").arg(millis(idle)).arg("NX");
        let done: Option<String> = self.ask_notes("SET", &set).await?;
        Ok(done.is_some())
    }

    /// Returns the text of a session; `None`: the session has ended. The session then ends after `idle` without another look.
    ///
    /// # Errors
    /// Redis cannot be used. Safe to repeat.
    pub async fn session(self, name: &str, idle: Duration) -> Result<Option<String>, Error> {
        let mut getex = self.on("GETEX", &key(name));
        getex.arg("PX").arg(millis(idle));
        self.ask_notes("GETEX", &getex).await
    }

    /// Ends a session.
    ///
    /// # Errors
    /// Redis cannot be used. Safe to repeat.
    pub async fn end_session(self, name: &str) -> Result<(), Error> {
        self.ask_notes("UNLINK", &self.on("UNLINK", &key(name))).await
    }
}

fn key(name: &str) -> String {
    format!("session:{name}")
}

/// At least one: Redis takes no end at once.
fn millis(idle: Duration) -> u64 {
    u64::try_from(idle.as_millis()).unwrap_or(u64::MAX).max(1)
}
