//! The notes of operations: versioned texts in one hash of shard 0, each replaced only as it was read.

use super::OperationsAdmin;
use crate::error::Error;
use delayq_core::shard::ShardId;
use delayq_core::verbs::swap::{self, NoteVersion};
use std::collections::BTreeMap;

/// The shard of the notes: every deployment has shard 0.
const SHARD: ShardId = ShardId::new(0);

// === impl OperationsAdmin ===

impl OperationsAdmin<'_> {
    /// Returns the notes of operations by name, each with its version and text.
    ///
    /// # Errors
    /// Redis cannot be used.
    pub async fn notes(self) -> Result<BTreeMap<String, (u64, String)>, Error> {
        let hgetall = self.on_notes("HGETALL");
        let found: BTreeMap<String, String> =
            self.admin.client.calls.link_of(SHARD).await?.query("HGETALL", &hgetall).await?;
        let parsed = found.into_iter().map(|(name, value)| {
            let parts = value.split_once(' ').and_then(|(version, text)| Some((version.parse().ok()?, text)));
            let (version, text) =
                parts.ok_or_else(|| Error::Unfit(format!("the note {name} has no version")))?;
            Ok((name, (version, text.to_owned())))
        });
        parsed.collect()
    }

    /// Returns the version and the text of one note.
    ///
    /// # Errors
    /// Redis cannot be used.
    pub async fn note(self, name: &str) -> Result<Option<(u64, String)>, Error> {
        let mut hget = self.on_notes("HGET");
        hget.arg(name);
        let found: Option<String> =
            self.admin.client.calls.link_of(SHARD).await?.query("HGET", &hget).await?;
        found.map(|value| versioned(name, &value)).transpose()
    }

    /// Replaces the note `name` of an operation if its version is `expected`: 0 if there must be none. An empty text deletes
    /// it. Returns the note as it is then.
    ///
    /// # Errors
    /// Redis cannot be used. After *unknown*, the version tells whether the note was replaced.
    pub async fn swap_note(self, name: &str, expected: u64, text: &str) -> Result<NoteVersion, Error> {
        self.admin.client.calls.layout().await?;
        self.admin.client.calls.ask(swap::request(SHARD, name, expected, text), swap::read).await
    }

    fn on_notes(self, command: &'static str) -> redis::Cmd {
        let mut cmd = redis::cmd(command);
        cmd.arg(self.admin.client.calls.keys().base(SHARD) + "operations");
        cmd
    }
}

fn versioned(name: &str, value: &str) -> Result<(u64, String), Error> {
    let parts =
        value.split_once(' ').and_then(|(version, text)| Some((version.parse().ok()?, text.to_owned())));
    parts.ok_or_else(|| Error::Unfit(format!("the note {name} has no version")))
}
