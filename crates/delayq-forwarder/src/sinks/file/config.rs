//! `[sinks.NAME.file]`.

use delayq_service::config::{ByteSize, Faults, Section};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// `[sinks.NAME.file]`: NDJSON files in one folder. The destination is a path in the folder.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FileConfig {
    /// The folder, an absolute path. The folder must exist; subfolders are created.
    pub dir: PathBuf,
    /// The size at which a file is set aside as `NAME.1`, `NAME.2` and so on: 1 MiB or more; unset: never. Nothing is
    /// ever deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rotate_at: Option<ByteSize>,
}

impl Section for FileConfig {
    fn validate(&self, at: &mut Faults) {
        if !self.dir.is_absolute() {
            at.refuse("dir", "expected the absolute path of a folder, such as \"/var/lib/delayq/out\"");
        }
        if let Some(size) = &self.rotate_at {
            at.range("rotate_at", size, ByteSize::from_mib(1)..=ByteSize::from_gib(1024));
        }
    }
}
