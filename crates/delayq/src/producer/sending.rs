//! Sending what was gathered, in one pipeline.

use super::room::Taken;
use super::under_way::Ticket;
use crate::circuit::Circuit;
use crate::gather::Gathered;
use crate::placing::{Placed, Placing, PutAnswer};
use delayq_core::durability::Waits;
use delayq_core::shard::ShardId;
use std::sync::Arc;
use tokio::sync::oneshot;

/// A put that waits to be sent.
pub(super) struct Waiting {
    pub(super) put: Placed,
    pub(super) answer: oneshot::Sender<PutAnswer>,
    pub(super) handed: Arc<Handed>,
}

/// What a hand-over holds until all of its puts are answered, or will not be sent.
pub(super) struct Handed {
    pub(super) _room: Taken,
    pub(super) _ticket: Option<Ticket>,
}

/// What sends the puts that were gathered.
pub(super) struct Sender {
    pub(super) placing: Placing,
    pub(super) circuit: Circuit,
}

// === impl Waiting ===

impl Gathered for Waiting {
    type Key = ShardId;

    fn key(&self) -> ShardId {
        self.put.place.at()
    }

    fn bytes(&self) -> usize {
        self.put.message.bytes()
    }
}

// === impl Sender ===

impl Sender {
    /// Sends what was gathered: one call for each shard and topic, in one pipeline. Returns the puts that have to go on,
    /// to their next place or by a newer layout; the others do not wait for them. All of them wait for `waits`. A put whose
    /// caller has given it up is not sent.
    pub(super) async fn send(&self, gathered: Vec<Waiting>, waits: &Waits) -> Vec<Waiting> {
        let (mut puts, mut callers) =
            (Vec::with_capacity(gathered.len()), Vec::with_capacity(gathered.len()));
        for Waiting { put, answer, handed } in gathered.into_iter().filter(|one| !one.answer.is_closed()) {
            let at = put.place.at();
            match self.circuit.outage(at) {
                Some(outage) => drop(answer.send((at, Err(outage)))),
                None => {
                    puts.push(put);
                    callers.push((answer, handed));
                }
            }
        }
        let present = self.placing.present_shard();
        if puts.iter().any(|put: &Placed| put.place.home() == present) {
            self.placing.next_shard();
        }
        let answers = self.placing.put_placed(&mut puts, waits).await;
        let mut again = Vec::new();
        for ((put, (caller, handed)), answer) in puts.into_iter().zip(callers).zip(answers) {
            match answer {
                // The caller may be gone: the put is carried out all the same.
                Some(answer) => drop(caller.send(answer)),
                None => again.push(Waiting { put, answer: caller, handed }),
            }
        }
        again
    }
}
