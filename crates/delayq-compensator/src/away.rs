//! Shards whose Redis is away while other shards can be used, as when a node of a cluster dies, or answers but takes no
//! messages.
//!
//! Writes to these shards rest alone, and all other writes continue. For a while nothing is sent to these shards, because
//! each call would wait for the deadline. If all shards are away, or all answer again, nothing is known here: then
//! everything stays in order, and is tried again.
//!
//! A node that the producer knows to be silent is not asked: only the first silence is waited for, and the writes to other
//! nodes are held up no more.

use crate::outcome::Outcome;
use delayq::protocol::{Placement, Probe, ShardId};
use delayq::{Error, Producer};
use std::collections::HashMap;
use std::time::Duration;
use tokio::time::Instant;

/// Time without calls to a shard that is away. Together with the deadline of a call, this bounds the wait of the shard's
/// records after a recovery.
const FOR: Duration = Duration::from_secs(1);

/// The shards that are away, and why.
#[derive(Debug, Default)]
pub(crate) struct Away {
    shards: HashMap<ShardId, String>,
    /// Until when that is believed.
    until: Option<Instant>,
}

// === impl Away ===

impl Away {
    /// Why nothing is sent to these places now.
    pub(crate) fn why(&self, places: impl FnOnce() -> Placement) -> Option<String> {
        if self.is_fresh() { self.of(places) } else { None }
    }

    /// Finds out which shards are away, if calls could not be carried out.
    pub(crate) async fn learn(&mut self, producer: &Producer, answers: &[Outcome]) {
        if answers.iter().any(|outcome| matches!(outcome, Outcome::Hold(..))) {
            // If no shard can be used, all are tried again.
            let _ = self.ask(producer).await;
        }
    }

    /// True if any shard can be used. Asks no shard while some are known to be away.
    pub(crate) async fn probe(&mut self, producer: &Producer) -> Result<(), Error> {
        if self.is_fresh() && !self.shards.is_empty() { Ok(()) } else { self.ask(producer).await }
    }

    /// The outcome of a write: a write that only its own shards hold up rests alone.
    pub(crate) fn judge(&self, outcome: Outcome, places: impl FnOnce() -> Placement) -> Outcome {
        match outcome {
            Outcome::Hold(fate, why) if self.of(places).is_some() => Outcome::Rest(fate, why),
            outcome => outcome,
        }
    }

    fn of(&self, places: impl FnOnce() -> Placement) -> Option<String> {
        if self.shards.is_empty() {
            return None;
        }
        places().newest_first().find_map(|shard| self.shards.get(&shard).cloned())
    }

    fn is_fresh(&self) -> bool {
        self.until.is_some_and(|until| Instant::now() < until)
    }

    /// Asks every shard whether it can be used.
    async fn ask(&mut self, producer: &Producer) -> Result<(), Error> {
        let shards: Vec<ShardId> = producer.client().shards().shards().collect();
        let answers = Probe::by(producer).takes_puts(&shards).await;
        self.note(shards.into_iter().zip(answers).collect())
    }

    /// Takes in which shards can be used; why none can, if so.
    fn note(&mut self, mut answers: Vec<(ShardId, Result<(), Error>)>) -> Result<(), Error> {
        self.until = Some(Instant::now() + FOR);
        self.shards.clear();
        if answers.iter().all(|(_, answer)| answer.is_err()) {
            return answers.swap_remove(0).1;
        }
        let away = answers.into_iter().filter_map(|(shard, answer)| match answer {
            Err(error) if error.is_outage() => Some((shard, error.to_string())),
            _ => None,
        });
        self.shards.extend(away);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use delayq::{Client, Fate, ProducerOptions, Settings};

    fn gone() -> Error {
        Error::Unreachable { address: "node".to_owned(), why: "refused".to_owned() }
    }

    #[test]
    fn a_write_rests_for_its_own_shards_alone_and_only_while_others_answer() {
        let place = |home, earlier: &[u16]| Placement {
            home: ShardId::new(home),
            earlier: earlier.iter().copied().map(ShardId::new).collect(),
        };
        for (answers, placement, rests) in [
            ([true, false], place(1, &[]), true),
            ([true, false], place(0, &[]), false),
            // A put also asks the earlier shard, from before a growth.
            ([true, false], place(0, &[1]), true),
            ([false, false], place(1, &[]), false),
            ([true, true], place(1, &[]), false),
        ] {
            let mut away = Away::default();
            let answer =
                |(shard, is_there)| (ShardId::new(shard), if is_there { Ok(()) } else { Err(gone()) });
            let noted = away.note((0..).zip(answers).map(answer).collect());
            assert_eq!(noted.is_ok(), answers.contains(&true));
            let hold = Outcome::Hold(Fate::Unknown, "no answer".to_owned());
            let judged = away.judge(hold.clone(), || placement.clone());
            let expected = if rests { Outcome::Rest(Fate::Unknown, "no answer".to_owned()) } else { hold };
            assert_eq!(judged, expected, "{answers:?} {placement:?}");
            assert_eq!(away.why(|| placement.clone()).is_some(), rests, "{answers:?} {placement:?}");
            assert_eq!(away.judge(Outcome::Done, || placement.clone()), Outcome::Done);
        }
    }

    #[tokio::test]
    async fn no_shard_is_asked_while_it_is_known_that_some_are_away() {
        let nowhere = Client::new(Settings::new("redis://127.0.0.1:1/"));
        let nowhere = Producer::start(nowhere, ProducerOptions::default());
        let mut away = Away::default();
        assert!(away.probe(&nowhere).await.is_err());
        let (here, gone) = ((ShardId::new(0), Ok(())), (ShardId::new(1), Err(gone())));
        away.note(vec![here.clone(), gone]).unwrap();
        away.probe(&nowhere).await.unwrap();
        away.note(vec![here]).unwrap();
        assert!(away.probe(&nowhere).await.is_err());
    }
}
