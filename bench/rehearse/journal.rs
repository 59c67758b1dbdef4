//! The progress of a rehearsal, kept in the data folder so that a killed rehearsal can resume.

use crate::day::Day;
use crate::script::Script;
use delayq_cli::failure::{file, usage};
use delayq_service::Fault;
use serde::{Deserialize, Serialize};
use std::io::ErrorKind;
use std::path::Path;

const NAME: &str = "rehearsal.json";

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Journal {
    pub(crate) fingerprint: u64,
    pub(crate) day: Day,
    pub(crate) done: usize,
    pub(crate) odd: Vec<Odd>,
    /// Number of processes of this rehearsal, including this process.
    pub(crate) lives: u32,
    /// Offset of the rehearsal's first delivery in the file.
    pub(crate) delivered_from: u64,
    /// True after the verdict.
    pub(crate) finished: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Odd {
    pub(crate) line: usize,
    pub(crate) answer: String,
    /// True if the message was due by then: this machine played the step too late, so the answer proves nothing.
    pub(crate) late: bool,
}

// === impl Journal ===

impl Journal {
    pub(crate) fn new(script: &Script, day: Day, delivered_from: u64) -> Self {
        let fingerprint = script.fingerprint;
        Self { fingerprint, day, done: 0, odd: Vec::new(), lives: 1, delivered_from, finished: false }
    }

    /// Fails if the journal belongs to another log.
    pub(crate) fn resume(folder: &Path, script: &Script) -> Result<Option<Self>, Fault> {
        let path = folder.join(NAME);
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(file(&path, "read", error)),
        };
        let journal: Self = serde_json::from_str(&text)
            .map_err(|error| usage(format!("{}: {error}; start over with --fresh", path.display())))?;
        match (journal.finished, journal.fingerprint == script.fingerprint) {
            (true, _) => Ok(None),
            (false, true) => Ok(Some(Self { lives: journal.lives + 1, ..journal })),
            (false, false) => Err(usage(format!(
                "{} holds an interrupted rehearsal of another log; finish it, choose another --data, or start over with \
                 --fresh",
                folder.display()
            ))),
        }
    }

    /// Atomic: after a kill a reader finds either the old or the new journal.
    pub(crate) fn save(&self, folder: &Path) -> Result<(), Fault> {
        let (path, fresh) = (folder.join(NAME), folder.join("rehearsal.json.new"));
        let text = serde_json::to_string(self).expect("a journal holds plain values");
        let written = std::fs::write(&fresh, text).and_then(|()| std::fs::rename(&fresh, &path));
        written.map_err(|error| file(&path, "write", error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = r#"{"at":"2013-02-08T07:00:00Z","put":{"topic":"t","id":"a","due":"2013-02-08T09:00:00Z","payload":1}}"#;

    #[test]
    fn an_interrupted_rehearsal_resumes_and_a_finished_one_does_not() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path();
        let script = Script::parse(ONE).unwrap();
        assert_eq!(Journal::resume(folder, &script).unwrap(), None);
        let day = Day { first_ms: 1, last_ms: 2, start_ms: 3, speed: 4.0 };
        let mut journal = Journal::new(&script, day, 7);
        journal.done = 1;
        journal.save(folder).unwrap();
        let resumed = Journal::resume(folder, &script).unwrap().unwrap();
        assert_eq!(resumed, Journal { lives: 2, ..journal.clone() });
        let other = Script::parse(&ONE.replace("\"a\"", "\"b\"")).unwrap();
        assert!(Journal::resume(folder, &other).unwrap_err().to_string().contains("another log"));
        journal.finished = true;
        journal.save(folder).unwrap();
        assert_eq!(Journal::resume(folder, &script).unwrap(), None);
    }
}
