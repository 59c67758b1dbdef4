//! The sink `file` in a folder that can disappear. `src/sinks/file` tests writes to a single file.

use crate::conformance::{Mortal, Subject, conforms};
use crate::stage::{Seen, record};
use delayq_forwarder::{FileConfig, SinkConfig};
use std::path::PathBuf;
use tempfile::TempDir;

struct Folder {
    outer: TempDir,
}

// === impl Folder ===

impl Folder {
    fn dir(&self) -> PathBuf {
        self.outer.path().join("out")
    }

    fn aside(&self) -> PathBuf {
        self.outer.path().join("aside")
    }
}

impl Subject for Folder {
    async fn start() -> Self {
        let folder = Self { outer: tempfile::tempdir().unwrap() };
        std::fs::create_dir(folder.dir()).unwrap();
        folder
    }

    fn sink(&self) -> SinkConfig {
        SinkConfig { file: Some(FileConfig { dir: self.dir(), rotate_at: None }), ..SinkConfig::default() }
    }

    fn destination(&self) -> String {
        "deep/f.ndjson".to_owned()
    }

    async fn seen(&self) -> Vec<Seen> {
        let text = std::fs::read_to_string(self.dir().join(self.destination())).unwrap_or_default();
        text.lines().map(|line| record("f", line)).collect()
    }
}

impl Mortal for Folder {
    async fn stop(&mut self) {
        std::fs::rename(self.dir(), self.aside()).unwrap();
    }

    async fn resume(&mut self) {
        std::fs::rename(self.aside(), self.dir()).unwrap();
    }
}

conforms!(Folder:
    everything_arrives_once,
    delayed_messages_come_at_their_time_and_cancelled_ones_never,
    a_server_that_is_down_at_start_is_named_or_waited_for,
    a_clean_stop_under_load_loses_and_repeats_nothing,
);
