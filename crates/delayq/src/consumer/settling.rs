//! Settles reserved messages, with the settlements of many holders in one call. A settlement that could not reach Redis
//! is repeated as long as the lease lasts.

use super::leases::Leases;
use super::settlement::{OpenSettlement, Settle};
use crate::calls::{Calls, MAX_IDS_A_PIPELINE};
use crate::client::Client;
use crate::error::Error;
use crate::gather::Gathering;
use crate::settle::{next_put, settle_all};
use delayq_core::fate::Advice;
use delayq_core::leased::Leased;
use delayq_core::message::Message;
use delayq_core::verbs::reserve::Receipt;
use delayq_core::verbs::settle::Settled;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::time::sleep;
use tokio_util::task::TaskTracker;

/// Maximum pipelines of settlements in flight.
const IN_FLIGHT: usize = 2;

/// Time that an ack without a waiting caller waits for other acks of its shard: a call costs Redis as much for one
/// receipt as for a dozen.
const GATHER: Duration = Duration::from_millis(40);
/// Such acks leave in parts of this size, so that other calls to Redis do not wait for a large batch: about 0.15 ms of
/// Redis's time.
const ACKS_A_PART: usize = 32;
/// Maximum parts: acks leave as fast as new acks arrive.
const MAX_PARTS: usize = 8;

/// Pause before a settlement is repeated.
const REST: Duration = Duration::from_millis(200);

/// The answer to a settlement; without an answer, the settling task ended with the runtime.
pub(crate) type AnswerReceiver = oneshot::Receiver<Result<Settled, Error>>;

#[derive(Clone, Debug)]
pub(super) struct Settler {
    /// Bounded by the leases: each lease is settled once.
    queue: mpsc::UnboundedSender<[OpenSettlement; 1]>,
    later: mpsc::UnboundedSender<Receipt>,
    leases: Arc<Leases>,
    client: Client,
}

#[derive(Clone)]
struct Settling {
    calls: Calls,
    leases: Arc<Leases>,
    tasks: TaskTracker,
}

#[derive(Debug)]
enum Attempted {
    Answer(Result<Settled, Error>),
    Again(Error),
}

// === impl Settler ===

impl Settler {
    pub(super) fn start(client: Client, leases: &Arc<Leases>, tasks: &TaskTracker) -> Self {
        let (queue, waiting) = mpsc::unbounded_channel();
        let (max_items, max_bytes) = (MAX_IDS_A_PIPELINE, delayq_core::limits::MAX_BYTES_A_CALL);
        let gathering = Gathering { max_items, max_bytes, in_flight: IN_FLIGHT };
        let (later, given) = mpsc::unbounded_channel();
        let calls = client.calls.clone();
        let settling = Settling { calls, leases: Arc::clone(leases), tasks: tasks.clone() };
        tasks.spawn(settling.clone().ack_gathered(given));
        tasks.spawn(async move { gathering.run(waiting, |gathered| settling.begin(gathered)).await });
        Self { queue, later, leases: Arc::clone(leases), client }
    }

    /// The settlement is handed over before any await, so the receiver may be dropped at any time.
    pub(super) fn settle(&self, settle: Settle) -> AnswerReceiver {
        let (answer, answered) = oneshot::channel();
        self.hand_over(OpenSettlement { answer: Some(answer), ..OpenSettlement::unattended(settle) });
        answered
    }

    /// The settlement of a message by an ack that puts its next message.
    ///
    /// # Errors
    /// The next message breaks a rule.
    pub(super) fn next_put(&self, leased: &Leased, next: Message) -> Result<Settle, Error> {
        next_put(&self.client, leased, next).map(|next| Settle::AckAndPut(Box::new(next)))
    }

    pub(super) fn ack_later(&self, receipt: Receipt) {
        // If the task ended with the runtime, the lease runs out.
        let _ = self.later.send(receipt);
    }

    pub(super) fn settle_later(&self, settle: Settle) {
        self.hand_over(OpenSettlement::unattended(settle));
    }

    /// If the task ended with the runtime, the lease runs out.
    fn hand_over(&self, open: OpenSettlement) {
        if let Err(mpsc::error::SendError([open])) = self.queue.send([open]) {
            self.leases.end(open.settle.receipt());
        }
    }
}

// === impl Settling ===

impl Settling {
    /// Repeats rest in a separate task first, so that nothing waits for a repeat.
    async fn begin(&self, open: Vec<OpenSettlement>) {
        let left = self.try_once(open).await;
        self.repeat(left);
    }

    fn repeat(&self, left: Vec<OpenSettlement>) {
        if !left.is_empty() {
            self.tasks.spawn(self.clone().go_on(left));
        }
    }

    /// Sends acks without a waiting caller, until all senders are dropped. If one ack fails, the others of its batch
    /// are repeated together with it: they would wait for the same Redis.
    async fn ack_gathered(self, mut given: mpsc::UnboundedReceiver<Receipt>) {
        let mut receipts = Vec::new();
        while given.recv_many(&mut receipts, usize::MAX).await > 0 {
            sleep(GATHER).await;
            while let Ok(receipt) = given.try_recv() {
                receipts.push(receipt);
            }
            // Neighbours share a call.
            receipts.sort_by_key(|receipt| receipt.shard);
            let part = ACKS_A_PART.max(receipts.len().div_ceil(MAX_PARTS));
            let mut acks = receipts.drain(..).map(|receipt| OpenSettlement::unattended(Settle::Ack(receipt)));
            let mut left = Vec::new();
            while left.is_empty() && acks.len() > 0 {
                left = self.try_once(acks.by_ref().take(part).collect()).await;
            }
            left.extend(acks);
            self.repeat(left);
        }
    }

    async fn go_on(self, mut left: Vec<OpenSettlement>) {
        while !left.is_empty() {
            sleep(REST).await;
            left = self.try_once(left).await;
        }
    }

    /// Passes answers to waiting callers; returns the settlements to repeat.
    async fn try_once(&self, open: Vec<OpenSettlement>) -> Vec<OpenSettlement> {
        let answers = {
            let settlements: Vec<_> = open.iter().map(|open| open.settle.as_call()).collect();
            settle_all(&self.calls, &settlements).await
        };
        let mut left = Vec::new();
        for (open, answer) in open.into_iter().zip(answers) {
            let receipt = open.settle.receipt();
            match verdict(&open.settle, open.is_lost, self.leases.lasts(receipt), answer) {
                Attempted::Answer(answer) => {
                    self.leases.end(receipt);
                    open.tell(answer);
                }
                Attempted::Again(error) => {
                    self.leases.unsettled(receipt);
                    left.push(open.after(&error));
                }
            }
        }
        left
    }
}

/// `is_lost`: the answer to an earlier attempt is missing; `lasts`: the lease lasts.
fn verdict(settle: &Settle, is_lost: bool, lasts: bool, answer: Result<Settled, Error>) -> Attempted {
    Attempted::Answer(match answer {
        Err(error) if lasts && error.advice() == Advice::Retry => return Attempted::Again(error),
        Err(error) if is_lost => Err(error.into_unknown()),
        // A lease that has not run out can only have been ended by the attempt with the missing answer.
        Ok(Settled::LeaseLost) if is_lost => match settle {
            Settle::Ack(_) | Settle::AckAndPut(_) if lasts => Ok(Settled::Delivered),
            Settle::Bury(..) if lasts => Ok(Settled::Buried),
            _ => Err(Error::NoAnswer {
                address: String::new(),
                why: "the first reply was lost, and the lease has expired".to_owned(),
            }),
        },
        answer => answer,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use delayq_core::shard::ShardId;
    use delayq_core::verbs::settle::Release;

    fn lost() -> Error {
        Error::NoAnswer { address: String::new(), why: String::new() }
    }

    fn refused(code: &str) -> Error {
        Error::Redis { code: code.to_owned(), detail: String::new() }
    }

    fn said(settle: &Settle, is_lost: bool, lasts: bool, answer: Result<Settled, Error>) -> String {
        match verdict(settle, is_lost, lasts, answer) {
            Attempted::Again(_) => "again".to_owned(),
            Attempted::Answer(Ok(settled)) => format!("{settled:?}"),
            Attempted::Answer(Err(error)) => format!("{:?}", error.fate()),
        }
    }

    #[test]
    fn a_settlement_is_told_again_while_its_lease_lasts_and_its_holder_is_told_the_truth() {
        let receipt = Receipt::new(ShardId::new(0), Vec::new());
        let (ack, bury) = (Settle::Ack(receipt.clone()), Settle::Bury(receipt.clone(), String::new()));
        let delay = None;
        let release = Settle::Release(Release { receipt, delay, keep_attempt: false, reason: String::new() });
        for (settle, is_lost, lasts, answer, wanted) in [
            (&ack, false, true, Ok(Settled::Delivered), "Delivered"),
            (&ack, false, true, Err(lost()), "again"),
            (&ack, true, true, Err(refused("LOADING")), "again"),
            (&ack, false, true, Err(refused("NOPERM")), "NotApplied"),
            (&ack, false, false, Err(lost()), "Unknown"),
            (&ack, false, false, Err(refused("LOADING")), "NotApplied"),
            (&ack, true, false, Err(refused("LOADING")), "Unknown"),
            (&ack, false, true, Ok(Settled::LeaseLost), "LeaseLost"),
            (&ack, true, true, Ok(Settled::LeaseLost), "Delivered"),
            (&bury, true, true, Ok(Settled::LeaseLost), "Buried"),
            (&release, true, true, Ok(Settled::LeaseLost), "Unknown"),
            (&ack, true, false, Ok(Settled::LeaseLost), "Unknown"),
        ] {
            let case = format!("{settle:?} {is_lost} {lasts} {answer:?}");
            assert_eq!(said(settle, is_lost, lasts, answer), wanted, "{case}");
        }
    }
}
