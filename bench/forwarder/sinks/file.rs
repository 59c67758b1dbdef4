//! NDJSON files: the bare client writes lines of the same length, and fsyncs as often.

use super::course::Course;
use super::target::{Target, batch, id};
use crate::deployment::body;
use delayq_forwarder::{FileConfig, SinkConfig};
use std::io::Write;

pub(crate) fn target() -> Target {
    let folder = tempfile::tempdir().unwrap();
    let config = FileConfig { dir: folder.path().to_owned(), rotate_at: None };
    let path = folder.path().join("bare");
    Target {
        sink: SinkConfig { file: Some(config), ..SinkConfig::default() },
        to: "out",
        bare: Box::new(move |count, course| {
            let path = path.clone();
            Box::pin(async move { write(&path, count, &course) })
        }),
        _server: Box::new(folder),
    }
}

fn write(path: &std::path::Path, count: usize, course: &Course) {
    let mut file = std::fs::File::create(path).unwrap();
    for first in (0..count).step_by(batch()) {
        let end = count.min(first + batch());
        let mut lines = Vec::new();
        for n in first..end {
            let (id, payload) = (id(n), String::from_utf8(body(n)).unwrap());
            let line = serde_json::json!({
                "id": id, "topic": "t", "due": 1_700_000_000_000_u64, "ready": 1_700_000_000_000_u64, "late_ms": 0.125,
                "attempt": 1, "delivery": 1, "headers": {}, "payload": payload,
            });
            serde_json::to_writer(&mut lines, &line).unwrap();
            lines.push(b'\n');
        }
        file.write_all(&lines).unwrap();
        file.sync_data().unwrap();
        course.confirmed(end - first);
    }
}
