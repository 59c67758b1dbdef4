//! The deliveries of a rehearsal, read from the forwarder's file: independent of delayq's own counters.

use delayq_cli::failure::file;
use delayq_service::Fault;
use hdrhistogram::Histogram;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

/// Maximum recorded lateness, in µs: an hour.
const MOST_LATE_US: u64 = 3_600_000_000;

#[derive(Debug)]
pub(crate) struct Deliveries {
    path: PathBuf,
    offset: u64,
    unfinished: Vec<u8>,
    pub(crate) seen: BTreeMap<(String, String), Vec<Delivery>>,
    pub(crate) lateness_us: Histogram<u64>,
    pub(crate) unreadable: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Delivery {
    pub(crate) due_ms: u64,
    pub(crate) ready_ms: u64,
    pub(crate) attempt: u32,
}

#[derive(Deserialize)]
struct Record {
    id: String,
    topic: String,
    due: u64,
    ready: u64,
    late_ms: f64,
    attempt: u32,
}

// === impl Deliveries ===

impl Deliveries {
    pub(crate) fn new(path: &Path, offset: u64) -> Self {
        let lateness_us = Histogram::new_with_max(MOST_LATE_US, 3).expect("three digits are allowed");
        let path = path.to_owned();
        Self { path, offset, unfinished: Vec::new(), seen: BTreeMap::new(), lateness_us, unreadable: 0 }
    }

    /// 0 if missing.
    pub(crate) fn end_of(path: &Path) -> u64 {
        std::fs::metadata(path).map_or(0, |found| found.len())
    }

    pub(crate) fn read_on(&mut self) -> Result<(), Fault> {
        let mut from = match File::open(&self.path) {
            Ok(from) => from,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(file(&self.path, "read", error)),
        };
        let mut fresh = Vec::new();
        let read = from.seek(SeekFrom::Start(self.offset)).and_then(|_| from.read_to_end(&mut fresh));
        self.offset += read.map_err(|error| file(&self.path, "read", error))? as u64;
        self.unfinished.append(&mut fresh);
        let lines = std::mem::take(&mut self.unfinished);
        let (whole, rest) =
            lines.split_at(lines.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1));
        whole.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()).for_each(|line| self.take(line));
        self.unfinished = rest.to_vec();
        Ok(())
    }

    pub(crate) fn messages(&self) -> usize {
        self.seen.len()
    }

    pub(crate) fn late_ms(&self, quantile: f64) -> f64 {
        self.lateness_us.value_at_quantile(quantile) as f64 / 1000.0
    }

    fn take(&mut self, line: &[u8]) {
        let Ok(record) = serde_json::from_slice::<Record>(line) else {
            self.unreadable += 1;
            return;
        };
        self.lateness_us.saturating_record((record.late_ms * 1000.0).max(0.0) as u64);
        let delivery = Delivery { due_ms: record.due, ready_ms: record.ready, attempt: record.attempt };
        self.seen.entry((record.topic, record.id)).or_default().push(delivery);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    #[test]
    fn a_line_counts_once_it_is_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("delivered.ndjson");
        let mut deliveries = Deliveries::new(&path, 0);
        deliveries.read_on().unwrap();
        assert_eq!(deliveries.messages(), 0);
        let mut out = File::create(&path).unwrap();
        let line = r#"{"id":"a","topic":"t","due":5,"ready":6,"late_ms":1.25,"attempt":1}"#;
        write!(out, "{line}\nnonsense\n{}", &line[..20]).unwrap();
        deliveries.read_on().unwrap();
        assert_eq!((deliveries.messages(), deliveries.unreadable), (1, 1));
        writeln!(out, "{}", &line[20..]).unwrap();
        deliveries.read_on().unwrap();
        let seen = &deliveries.seen[&("t".to_owned(), "a".to_owned())];
        assert_eq!(seen.as_slice(), [Delivery { due_ms: 5, ready_ms: 6, attempt: 1 }; 2]);
        assert!((deliveries.late_ms(0.5) - 1.25).abs() < 0.01);
    }
}
