//! Settling what was reserved, many holders' settlements in one call; what Redis could not be told is told again for as
//! long as its lease lasts.

use super::{
    later::Later,
    leases::Leases,
    settlement::{Open, Settle},
};
use crate::{Advice, Client, Error, Receipt, Settled, gather::Gathering};
use std::{sync::Arc, time::Duration};
use tokio::{
    sync::{mpsc, oneshot},
    time::sleep,
};
use tokio_util::task::TaskTracker;

/// Settlements that may wait to be gathered before holders are held back.
const QUEUE: usize = 4096;

/// How long to rest before Redis is told again.
const REST: Duration = Duration::from_millis(200);

/// The way to the tasks that settle.
#[derive(Clone, Debug)]
pub(super) struct Settler {
    queue: mpsc::Sender<Open>,
    later: Later,
    leases: Arc<Leases>,
}

/// What the tasks work with.
#[derive(Clone)]
struct Settling {
    client: Client,
    leases: Arc<Leases>,
    tasks: TaskTracker,
}

/// What a try comes to.
#[derive(Debug)]
enum Verdict {
    Answer(Result<Settled, Error>),
    Again(Error),
}

// === impl Settler ===

impl Settler {
    pub(super) fn start(client: Client, leases: &Arc<Leases>, tasks: &TaskTracker) -> Self {
        let (queue, waiting) = mpsc::channel(QUEUE);
        let (most, most_bytes) = (crate::MAX_IDS_A_CALL, crate::MAX_BYTES_A_CALL);
        let gathering = Gathering { most, most_bytes, in_flight: 2, linger: Duration::ZERO };
        let later = Later::start(client.clone(), Arc::clone(leases), queue.clone(), tasks);
        let settling = Settling { client, leases: Arc::clone(leases), tasks: tasks.clone() };
        tasks.spawn(async move { gathering.run(waiting, |gathered| settling.begin(gathered)).await });
        Self { queue, later, leases: Arc::clone(leases) }
    }

    pub(super) async fn settle(&self, settle: Settle) -> Result<Settled, Error> {
        let (answer, answered) = oneshot::channel();
        let open = Open { answer: Some(answer), ..Open::unattended(settle) };
        self.queue.send(open).await.map_err(|_| Error::Closed)?;
        answered.await.map_err(|_| Error::Closed)?
    }

    /// Acks without waiting, and not at once.
    pub(super) fn ack_later(&self, receipt: Receipt) {
        self.later.ack(receipt);
    }

    /// Settles without waiting; where the queue is full, the lease has to run out.
    pub(super) fn settle_later(&self, settle: Settle) {
        if let Err(mpsc::error::TrySendError::Full(open) | mpsc::error::TrySendError::Closed(open)) =
            self.queue.try_send(Open::unattended(settle))
        {
            self.leases.end(open.settle.receipt());
        }
    }
}

// === impl Settling ===

impl Settling {
    async fn begin(&self, open: Vec<Open>) {
        let left = self.try_once(open).await;
        if !left.is_empty() {
            // Apart, so that what is settled meanwhile does not wait for these.
            self.tasks.spawn(self.clone().go_on(left));
        }
    }

    async fn go_on(self, mut left: Vec<Open>) {
        while !left.is_empty() {
            sleep(REST).await;
            left = self.try_once(left).await;
        }
    }

    /// Tells Redis once, and those who wait what it answered; what is left has to be told again.
    async fn try_once(&self, open: Vec<Open>) -> Vec<Open> {
        let answers = self.client.settle_all(&open).await;
        let mut left = Vec::new();
        for (open, answer) in open.into_iter().zip(answers) {
            let receipt = open.settle.receipt();
            match verdict(&open.settle, open.is_lost, self.leases.lasts(receipt), answer) {
                Verdict::Answer(answer) => {
                    self.leases.end(receipt);
                    open.tell(answer);
                }
                Verdict::Again(error) => {
                    self.leases.unsettled(receipt);
                    left.push(open.after(&error));
                }
            }
        }
        left
    }
}

/// What a try comes to: `is_lost`, whether the answer to an earlier one is missing; `lasts`, whether the lease does.
fn verdict(settle: &Settle, is_lost: bool, lasts: bool, answer: Result<Settled, Error>) -> Verdict {
    Verdict::Answer(match answer {
        Err(error) if lasts && error.advice() == Advice::Retry => return Verdict::Again(error),
        Err(error) if is_lost => Err(error.into_unknown()),
        // A lease that has not run out can only have been ended by the try whose answer is missing.
        Ok(Settled::Expired) if is_lost => match settle {
            Settle::Ack(_) if lasts => Ok(Settled::Delivered),
            Settle::Bury(..) if lasts => Ok(Settled::Buried),
            _ => Err(Error::NoAnswer {
                address: String::new(),
                why: "the first answer was lost, and the lease is over now".to_owned(),
            }),
        },
        answer => answer,
    })
}

// === impl Client ===

impl Client {
    /// Settles each in its way, in one round trip for each way: one answer each, in order.
    async fn settle_all(&self, open: &[Open]) -> Vec<Result<Settled, Error>> {
        let (mut acks, mut releases, mut buried) = (Sorted::new(), Sorted::new(), Sorted::new());
        for (i, open) in open.iter().enumerate() {
            match &open.settle {
                Settle::Ack(receipt) => acks.push(i, receipt.clone()),
                Settle::Release(release) => releases.push(i, release.clone()),
                Settle::Bury(receipt, reason) => buried.push(i, (receipt.clone(), reason.clone())),
            }
        }
        let (acked, released, dead) = futures_util::join!(
            self.ack(&acks.items),
            self.release(&releases.items),
            self.bury(&buried.items),
        );
        let places = acks.places.into_iter().chain(releases.places).chain(buried.places);
        let mut answers: Vec<_> = places.zip(acked.into_iter().chain(released).chain(dead)).collect();
        answers.sort_unstable_by_key(|(i, _)| *i);
        answers.into_iter().map(|(_, answer)| answer).collect()
    }
}

/// Settlements of one kind, and their places among all.
struct Sorted<T> {
    items: Vec<T>,
    places: Vec<usize>,
}

// === impl Sorted ===

impl<T> Sorted<T> {
    fn new() -> Self {
        Self { items: Vec::new(), places: Vec::new() }
    }

    fn push(&mut self, place: usize, item: T) {
        self.items.push(item);
        self.places.push(place);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Release;
    use crate::ShardId;

    fn lost() -> Error {
        Error::NoAnswer { address: String::new(), why: String::new() }
    }

    fn refused(code: &str) -> Error {
        Error::Redis { code: code.to_owned(), detail: String::new() }
    }

    /// `again`, or what the holder is answered.
    fn said(settle: &Settle, is_lost: bool, lasts: bool, answer: Result<Settled, Error>) -> String {
        match verdict(settle, is_lost, lasts, answer) {
            Verdict::Again(_) => "again".to_owned(),
            Verdict::Answer(Ok(settled)) => format!("{settled:?}"),
            Verdict::Answer(Err(error)) => format!("{:?}", error.fate()),
        }
    }

    #[test]
    fn a_settlement_is_told_again_while_its_lease_lasts_and_its_holder_is_told_the_truth() {
        let receipt = Receipt { shard: ShardId::new(0), bytes: Vec::new() };
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
            (&ack, false, true, Ok(Settled::Expired), "Expired"),
            (&ack, true, true, Ok(Settled::Expired), "Delivered"),
            (&bury, true, true, Ok(Settled::Expired), "Buried"),
            (&release, true, true, Ok(Settled::Expired), "Unknown"),
            (&ack, true, false, Ok(Settled::Expired), "Unknown"),
        ] {
            let case = format!("{settle:?} {is_lost} {lasts} {answer:?}");
            assert_eq!(said(settle, is_lost, lasts, answer), wanted, "{case}");
        }
    }
}
