//! How far a replay is, kept in the data folder: what a killed one needs to go on.

use delayq_service::Fault;
use serde::{Deserialize, Serialize};

use super::day::Day;
use super::script::Script;
use crate::failure::usage;
use crate::up::DataFolder;

const NAME: &str = "replay.json";

/// How far a replay is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Journal {
    /// What the log is recognised by.
    pub fingerprint: u64,
    /// When it is played, and how fast.
    pub day: Day,
    /// The steps that were answered, from the first.
    pub done: usize,
    /// Steps that were answered otherwise than the log says: line and answer.
    pub odd: Vec<(usize, String)>,
    /// How many processes played it, this one included.
    pub lives: u32,
    /// Where its deliveries begin in the file.
    pub delivered_from: u64,
    /// Whether it was judged.
    pub finished: bool,
}

// === impl Journal ===

impl Journal {
    /// A replay that begins.
    pub fn new(script: &Script, day: Day, delivered_from: u64) -> Self {
        let fingerprint = script.fingerprint;
        Self { fingerprint, day, done: 0, odd: Vec::new(), lives: 1, delivered_from, finished: false }
    }

    /// The replay that was interrupted in this folder, if there is one.
    ///
    /// # Errors
    /// It is of another log, or cannot be read.
    pub fn resume(folder: &DataFolder, script: &Script) -> Result<Option<Self>, Fault> {
        let Some(text) = folder.read(NAME)? else { return Ok(None) };
        let journal: Self = serde_json::from_str(&text).map_err(|error| {
            usage(format!("{}: {error}; start over with --fresh", folder.join(NAME).display()))
        })?;
        match (journal.finished, journal.fingerprint == script.fingerprint) {
            (true, _) => Ok(None),
            (false, true) => Ok(Some(Self { lives: journal.lives + 1, ..journal })),
            (false, false) => Err(usage(format!(
                "{} holds an interrupted replay of another log; finish it, choose another --data, or start over with \
                 --fresh",
                folder.path().display()
            ))),
        }
    }

    /// Writes it.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn save(&self, folder: &DataFolder) -> Result<(), Fault> {
        folder.replace(NAME, &serde_json::to_string(self).expect("a journal is made of plain values"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = r#"{"at":"2013-02-08T07:00:00Z","put":{"topic":"t","id":"a","due":"2013-02-08T09:00:00Z","payload":1}}"#;

    #[test]
    fn an_interrupted_replay_goes_on_and_a_finished_one_does_not() {
        let dir = tempfile::tempdir().unwrap();
        let folder = DataFolder::open(dir.path()).unwrap();
        let script = Script::parse(ONE).unwrap();
        assert_eq!(Journal::resume(&folder, &script).unwrap(), None);
        let day = Day { first_ms: 1, last_ms: 2, start_ms: 3, speed: 4.0 };
        let mut journal = Journal::new(&script, day, 7);
        journal.done = 1;
        journal.save(&folder).unwrap();
        let resumed = Journal::resume(&folder, &script).unwrap().unwrap();
        assert_eq!(resumed, Journal { lives: 2, ..journal.clone() });
        let other = Script::parse(&ONE.replace("\"a\"", "\"b\"")).unwrap();
        assert!(Journal::resume(&folder, &other).unwrap_err().to_string().contains("another log"));
        journal.finished = true;
        journal.save(&folder).unwrap();
        assert_eq!(Journal::resume(&folder, &script).unwrap(), None);
    }
}
