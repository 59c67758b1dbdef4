//! The log of actions: who changed what through a gateway. A stream of shard 0 with a bounded length.

use super::GatewaysAdmin;
use crate::error::Error;
use delayq_core::time::UnixMillis;

/// Maximum entries of a page.
const MAX_PAGE: usize = 1_000;
const FIELD: &str = "action";

/// An entry of the log of actions. See [`GatewaysAdmin::actions`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggedAction {
    /// The place in the log, which rises.
    pub id: String,
    /// The time of the record, on Redis's clock.
    pub at: UnixMillis,
    /// The text as recorded.
    pub text: String,
}

/// The id and the fields of an entry.
type StreamEntry = (String, Vec<(String, String)>);

// === impl GatewaysAdmin ===

impl GatewaysAdmin<'_> {
    /// Adds an entry to the log of actions. The log keeps about the latest `keep` entries.
    ///
    /// # Errors
    /// Redis cannot be used, or the deployment does not exist. A repeat adds another entry.
    pub async fn record_action(self, text: &str, keep: u32) -> Result<(), Error> {
        self.admin.client.calls.layout().await?;
        let mut xadd = self.on("XADD", "actions");
        xadd.arg("MAXLEN").arg("~").arg(keep).arg("*").arg(FIELD).arg(text);
        let _: String = self.ask_notes("XADD", &xadd).await?;
        Ok(())
    }

    /// Returns entries of the log of actions, the newest first, at most `max` and at most 1,000: the newest, or those before
    /// the entry with the id `before`.
    ///
    /// # Errors
    /// Redis cannot be used, or `before` is not an id.
    pub async fn actions(self, before: Option<&str>, max: usize) -> Result<Vec<LoggedAction>, Error> {
        let from = before.map_or_else(|| "+".to_owned(), |id| format!("({id}"));
        let mut xrevrange = self.on("XREVRANGE", "actions");
        xrevrange.arg(from).arg("-").arg("COUNT").arg(max.clamp(1, MAX_PAGE));
        let entries: Vec<StreamEntry> = self.ask_notes("XREVRANGE", &xrevrange).await?;
        Ok(entries.into_iter().filter_map(LoggedAction::read).collect())
    }
}

// === impl LoggedAction ===

impl LoggedAction {
    /// `None`: another program added the entry.
    fn read((id, fields): StreamEntry) -> Option<Self> {
        let at = UnixMillis::new(id.split_once('-')?.0.parse().ok()?);
        let (_, text) = fields.into_iter().find(|(name, _)| name == FIELD)?;
        Some(Self { id, at, text })
    }
}
