//! State shared by the gateways of a deployment, in shard 0: notes, which are names and texts, the counts of windows, a key,
//! tenants, beats, sessions, and the log of actions.

mod actions;
mod beats;
mod sessions;
mod signing;
mod tenants;

pub use actions::LoggedAction;

use super::Admin;
use crate::error::Error;
use delayq_core::shard::ShardId;
use delayq_core::verbs::meter;
use std::collections::BTreeMap;
use std::time::Duration;

/// The shard of the notes: every deployment has shard 0.
const SHARD: ShardId = ShardId::new(0);

/// Keeps what the gateways of a deployment share. See [`Admin::gateways`].
///
/// ```no_run
/// # async fn example(admin: delayq::Admin) -> Result<(), delayq::Error> {
/// admin.gateways().note("pool/orders", "open").await?;
/// let [note] = admin.gateways().notes_of(["pool/orders"]).await?;
/// assert_eq!(note.as_deref(), Some("open"));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct GatewaysAdmin<'a> {
    admin: &'a Admin,
}

// === impl Admin ===

impl Admin {
    /// Returns the handle to the state that the gateways of the deployment share.
    pub const fn gateways(&self) -> GatewaysAdmin<'_> {
        GatewaysAdmin { admin: self }
    }
}

// === impl GatewaysAdmin ===

impl GatewaysAdmin<'_> {
    /// Returns the notes with these names, in order.
    ///
    /// # Errors
    /// Redis cannot be used.
    pub async fn notes_of<const N: usize>(self, names: [&str; N]) -> Result<[Option<String>; N], Error> {
        let mut hmget = self.on_notes("HMGET");
        hmget.arg(&names);
        let found: Vec<Option<String>> = self.ask_notes("HMGET", &hmget).await?;
        let count = found.len();
        found
            .try_into()
            .map_err(|_| Error::Unfit(format!("unexpected reply to HMGET: {count} values instead of {N}")))
    }

    /// Returns every note by name.
    ///
    /// # Errors
    /// Redis cannot be used.
    pub async fn notes(self) -> Result<BTreeMap<String, String>, Error> {
        self.ask_notes("HGETALL", &self.on_notes("HGETALL")).await
    }

    /// Writes a note, replacing an earlier note.
    ///
    /// # Errors
    /// Redis cannot be used, or the deployment does not exist. Safe to repeat.
    pub async fn note(self, name: &str, text: &str) -> Result<(), Error> {
        self.admin.client.calls.layout().await?;
        let mut hset = self.on_notes("HSET");
        hset.arg(name).arg(text);
        self.ask_notes("HSET", &hset).await
    }

    /// Writes a note unless the name exists. Returns true if the note was written.
    ///
    /// # Errors
    /// Redis cannot be used, or the deployment does not exist.
    pub async fn new_note(self, name: &str, text: &str) -> Result<bool, Error> {
        self.admin.client.calls.layout().await?;
        let mut hsetnx = self.on_notes("HSETNX");
        hsetnx.arg(name).arg(text);
        self.ask_notes("HSETNX", &hsetnx).await
    }

    /// Deletes notes and windows.
    ///
    /// # Errors
    /// Redis cannot be used. Safe to repeat.
    pub async fn delete_notes(self, names: &[String]) -> Result<(), Error> {
        if names.is_empty() {
            return Ok(());
        }
        let mut hdel = self.on_notes("HDEL");
        hdel.arg(names);
        self.ask_notes("HDEL", &hdel).await
    }

    /// Counts a call in the window of this name; a window is `window` long and begins with the first call. Returns the
    /// count including this call.
    ///
    /// # Errors
    /// Redis cannot be used.
    pub async fn count_call(self, name: &str, window: Duration) -> Result<u64, Error> {
        self.admin.client.calls.ask(meter::request(SHARD, name, false, window), meter::read).await
    }

    /// Takes a counted call back.
    ///
    /// # Errors
    /// Redis cannot be used.
    pub async fn take_back_call(self, name: &str, window: Duration) -> Result<(), Error> {
        self.admin.client.calls.ask(meter::request(SHARD, name, true, window), meter::read).await.map(drop)
    }

    fn on_notes(self, command: &'static str) -> redis::Cmd {
        self.on(command, "gateway")
    }

    /// A command on a key of shard 0.
    fn on(self, command: &'static str, key: &str) -> redis::Cmd {
        let mut cmd = redis::cmd(command);
        cmd.arg(self.admin.client.calls.keys().base(SHARD) + key);
        cmd
    }

    async fn ask_notes<T: redis::FromRedisValue>(
        self,
        command: &'static str,
        cmd: &redis::Cmd,
    ) -> Result<T, Error> {
        self.admin.client.calls.link_of(SHARD).await?.query(command, cmd).await
    }
}
