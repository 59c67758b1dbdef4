//! `[spool]`: the folder on local disk for writes that could not reach Redis.

use crate::config::{ByteSize, Faults, Section};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// `[spool]`: shared by the producers of a host, its gateway, and its compensator, which resubmits spooled writes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SpoolConfig {
    /// Folder on a local disk, absolute; `""`: no spool. Default `""`. Not on a network file system.
    pub dir: PathBuf,
    /// Maximum size; above the limit a put that cannot reach Redis is refused. 1MiB to 1TiB; default 1GiB.
    pub max_bytes: ByteSize,
}

// === impl SpoolConfig ===

impl SpoolConfig {
    /// The folder, unless the spool is off.
    #[must_use]
    pub fn folder(&self) -> Option<&Path> {
        Some(self.dir.as_path()).filter(|dir| !dir.as_os_str().is_empty())
    }
}

impl Default for SpoolConfig {
    fn default() -> Self {
        Self { dir: PathBuf::new(), max_bytes: ByteSize::from_gib(1) }
    }
}

impl Section for SpoolConfig {
    fn validate(&self, at: &mut Faults) {
        if self.folder().is_some_and(Path::is_relative) {
            at.refuse(
                "dir",
                "expected an absolute path: processes with other working directories share the spool",
            );
        }
        at.range("max_bytes", &self.max_bytes, ByteSize::from_mib(1)..=ByteSize::from_gib(1024));
    }
}
