//! Invalid calls: refused by name, without a change.

use super::Run;
use crate::action::{Action, List, Promote, Purge, Reserve};
use crate::compare::compare;

/// Invalid back-offs: unknown kind, wrong length, no delay, shrinking.
pub(super) const BROKEN_BACKOFFS: [&[u8]; 6] = [
    &[0, 0, 0, 0, 1],
    &[1, 0, 0, 0, 1, 0, 0, 0, 1],
    &[1, 0, 0, 0, 0],
    &[2, 0, 0, 0, 1],
    &[2, 0, 0, 0, 2, 0, 0, 0, 1],
    &[3, 0, 0, 0, 1, 0],
];

// === impl Run ===

impl Run {
    pub(super) async fn refused_step(&mut self) -> Result<(), String> {
        let action = self.out_of_range();
        self.log.push(format!("{}: to be refused: {action:?}", self.model.now()));
        self.set_clock();
        let (answer, after) = self.shard.step(action.verb(), &action.args()).await;
        match answer {
            Err(why) if why.starts_with("DQARG") => {}
            other => return Err(format!("not refused: {other:?}")),
        }
        self.before = after;
        compare(&self.model, &self.before, &mut self.watch)
    }

    fn out_of_range(&mut self) -> Action {
        let (topic, group) = (self.topic(), self.group());
        let limit = [0, 501, 5000, 9000][self.rng.usize(..4)];
        match self.rng.u8(..10) {
            0 => Action::Reserve(Reserve::from(&topic, limit, None)),
            1 => {
                let lease = [0, 86_400_001, 1 << 53][self.rng.usize(..3)];
                Action::Reserve(Reserve::from(&topic, 1, Some(lease)))
            }
            2 => Action::Pump { epoch: Some(self.model.epoch), limit },
            3 => Action::CancelGroup { group, topic: String::new(), behind: (0, Vec::new()), limit },
            4 => Action::ShiftGroup { group, topic: String::new(), token: "0".into(), by: 1000, limit },
            5 if self.rng.bool() => {
                let (from, to, last) = (0, 0, Vec::new());
                Action::Promote(Promote { topic, group, from, to, last, limit })
            }
            5 => Action::Purge(Purge { topic, state: "ready", from: 0, to: 0, last: Vec::new(), limit }),
            6 => {
                let (from, to, newest_first, last) = (0, 9, false, Vec::new());
                Action::List(List { topic, state: "ready", from, to, newest_first, last, limit })
            }
            7 => Action::ListGroup { group, behind: (0, Vec::new()), limit },
            8 => {
                let broken = BROKEN_BACKOFFS[self.rng.usize(..BROKEN_BACKOFFS.len())];
                Action::configure(&topic, "backoff", broken)
            }
            _ => {
                let all = [("rate", "0"), ("rate", "1e3"), ("lease_ms", "0"), ("max_attempts", "65536")];
                let (field, value) = all[self.rng.usize(..all.len())];
                Action::configure(&topic, field, value)
            }
        }
    }
}
