//! Members that an operator keeps without shards: one document, by name, that outlives leaders and restarts.

use crate::etcd::Entry;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The document's format. A reader refuses a newer format by name.
const FORMAT: u16 = 1;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Drains {
    format: u16,
    /// By the member's name: a drain outlasts the member's restart.
    members: BTreeMap<String, Drain>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Drain {
    /// Unix time in milliseconds by the operator's clock; for people only.
    pub(crate) since_ms: u64,
    #[serde(default)]
    pub(crate) reason: String,
}

// === impl Drains ===

impl Default for Drains {
    fn default() -> Self {
        Self { format: FORMAT, members: BTreeMap::new() }
    }
}

impl Drains {
    /// Without an entry, no member is drained.
    pub(crate) fn read(entry: Option<&Entry>) -> Result<Self, String> {
        entry.map_or_else(|| Ok(Self::default()), |entry| Self::from_json(&entry.value))
    }

    fn from_json(json: &[u8]) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Format {
            format: u16,
        }
        let damaged = |error: serde_json::Error| format!("it is damaged: {error}");
        match serde_json::from_slice(json).map_err(damaged)? {
            Format { format } if format > FORMAT => {
                Err(format!("format {format} is newer than this program can read ({FORMAT})"))
            }
            Format { .. } => serde_json::from_slice(json).map_err(damaged),
        }
    }

    pub(crate) fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("drains have only numbers and texts, which always serialise")
    }

    pub(crate) fn holds(&self, name: &str) -> bool {
        self.members.contains_key(name)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&String, &Drain)> {
        self.members.iter()
    }

    pub(crate) fn add(&mut self, name: &str, drain: Drain) {
        self.members.insert(name.to_owned(), drain);
    }

    /// True if the member was drained.
    pub(crate) fn remove(&mut self, name: &str) -> bool {
        self.members.remove(name).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drains_read_back_as_they_were_written_and_a_newer_or_damaged_document_is_refused() {
        let mut drains = Drains::default();
        drains.add("a", Drain { since_ms: 7, reason: "kernel".into() });
        assert_eq!(Drains::from_json(&drains.to_json()), Ok(drains));
        assert!(Drains::from_json(br#"{"format":2,"zones":[]}"#).unwrap_err().contains("format 2"));
        for damaged in [&b"{}"[..], b"", br#"{"format":1}"#] {
            assert!(Drains::from_json(damaged).unwrap_err().contains("damaged"), "{damaged:?}");
        }
    }
}
