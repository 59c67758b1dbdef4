//! The archive: named texts, each without secrets, as a .tar.gz.

use super::redact::Redactor;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde::Serialize;
use serde_json::Value;
use std::io::Write as _;
use tar::{Builder, Header};

const FOLDER: &str = "delayq-bundle";

/// In memory: the size of the contents is bounded.
pub(super) struct Archive {
    builder: Builder<GzEncoder<Vec<u8>>>,
    redactor: Redactor,
    seconds: u64,
    pub(super) packed: Vec<Packed>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Packed {
    pub(super) file: String,
    pub(super) bytes: usize,
    /// Reason for a missing part; also in the file.
    pub(super) why: Option<String>,
}

// === impl Archive ===

impl Archive {
    pub(super) fn new(redactor: Redactor, seconds: u64) -> Self {
        let encoder = GzEncoder::new(Vec::new(), Compression::default());
        Self { builder: Builder::new(encoder), redactor, seconds, packed: Vec::new() }
    }

    /// In place of a missing text, the file holds the reason.
    pub(super) fn text(&mut self, file: &str, text: Result<String, String>) {
        let (file, text, why) = match text {
            Ok(text) => (file.to_owned(), self.redactor.redact(&text), None),
            Err(why) => {
                let why = self.redactor.redact(&why);
                (format!("{file}.missing.txt"), format!("cannot collect {file}: {why}\n"), Some(why))
            }
        };
        let mut header = Header::new_gnu();
        header.set_size(text.len() as u64);
        header.set_mode(0o600);
        header.set_mtime(self.seconds);
        let path = format!("{FOLDER}/{file}");
        let added = self.builder.append_data(&mut header, path, text.as_bytes());
        added.expect("writing to memory cannot fail, and names are short");
        self.packed.push(Packed { file, bytes: text.len(), why });
    }

    pub(super) fn json(&mut self, file: &str, value: Result<Value, String>) {
        let text = value.map(|value| serde_json::to_string_pretty(&value).expect("values are JSON") + "\n");
        self.text(file, text);
    }

    pub(super) fn finish(self) -> (Vec<u8>, Vec<Packed>) {
        let finished = self.builder.into_inner().and_then(|mut encoder| {
            encoder.flush()?;
            encoder.finish()
        });
        (finished.expect("writing to memory cannot fail"), self.packed)
    }
}
