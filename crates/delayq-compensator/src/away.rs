//! Shards whose Redis is away while that of others can be used, as when a node of a cluster dies.
//!
//! Their writes rest alone, and the others go on. For a while nothing is sent to these shards, or each call would wait for
//! their deadline. Where all are away, or where all answer again, nothing is known here: then everything stays in order, and
//! is tried again.

use crate::outcome::Settle;
use delayq::protocol::{Placement, ShardId};
use delayq::{Admin, Client, Error};
use std::collections::HashMap;
use std::time::Duration;
use tokio::time::Instant;

/// How long nothing is sent to a shard that is away.
const FOR: Duration = Duration::from_secs(5);

/// The shards that are away, and why.
#[derive(Debug, Default)]
pub(crate) struct Away {
    shards: HashMap<ShardId, String>,
    /// Until when that is believed.
    until: Option<Instant>,
}

// === impl Away ===

impl Away {
    /// Why nothing is sent to one of these places now.
    pub(crate) fn why(&self, places: impl FnOnce() -> Placement) -> Option<String> {
        let is_fresh = self.until.is_some_and(|until| Instant::now() < until);
        if is_fresh { self.of(places) } else { None }
    }

    /// Finds out which shards are away, if calls could not be carried out.
    pub(crate) async fn learn(&mut self, client: &Client, answers: &[Settle]) {
        if answers.iter().any(|settle| matches!(settle, Settle::Hold(..))) {
            self.note(ask_all(client).await);
        }
    }

    /// What becomes of a write: one that only its own shards hold up rests alone.
    pub(crate) fn judge(&self, settle: Settle, places: impl FnOnce() -> Placement) -> Settle {
        match settle {
            Settle::Hold(fate, why) if self.of(places).is_some() => Settle::Rest(fate, why),
            settle => settle,
        }
    }

    fn of(&self, places: impl FnOnce() -> Placement) -> Option<String> {
        if self.shards.is_empty() {
            return None;
        }
        places().newest_first().find_map(|shard| self.shards.get(&shard).cloned())
    }

    fn note(&mut self, answers: Vec<(ShardId, Result<(), Error>)>) {
        let is_whole = answers.iter().all(|(_, answer)| answer.is_err());
        let away = answers.into_iter().filter_map(|(shard, answer)| match answer {
            Err(error) if error.is_outage() && !is_whole => Some((shard, error.to_string())),
            _ => None,
        });
        (self.shards, self.until) = (away.collect(), Some(Instant::now() + FOR));
    }
}

/// Asks every shard whether it can be used.
pub(crate) async fn ask_all(client: &Client) -> Vec<(ShardId, Result<(), Error>)> {
    let shards: Vec<ShardId> = client.shards().shards().collect();
    let answers = Admin::new(client.clone()).overview_of(&shards).await;
    shards.into_iter().zip(answers.into_iter().map(|answer| answer.map(drop))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use delayq::Fate;

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
            // A put asks where it belonged before a growth.
            ([true, false], place(0, &[1]), true),
            ([false, false], place(1, &[]), false),
            ([true, true], place(1, &[]), false),
        ] {
            let mut away = Away::default();
            let answer =
                |(shard, is_there)| (ShardId::new(shard), if is_there { Ok(()) } else { Err(gone()) });
            away.note((0..).zip(answers).map(answer).collect());
            let hold = Settle::Hold(Fate::Unknown, "no answer".to_owned());
            let judged = away.judge(hold.clone(), || placement.clone());
            let expected = if rests { Settle::Rest(Fate::Unknown, "no answer".to_owned()) } else { hold };
            assert_eq!(judged, expected, "{answers:?} {placement:?}");
            assert_eq!(away.why(|| placement.clone()).is_some(), rests, "{answers:?} {placement:?}");
            assert_eq!(away.judge(Settle::Done, || placement.clone()), Settle::Done);
        }
    }
}
