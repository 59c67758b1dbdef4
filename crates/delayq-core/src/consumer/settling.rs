//! Settling what was reserved, many holders' settlements in one call.

use super::later::Later;
use crate::{Client, Error, Receipt, Release, Settled, gather::Gathering};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio_util::task::TaskTracker;

/// Settlements that may wait to be gathered before holders are held back.
const QUEUE: usize = 4096;

/// How a message is settled.
#[derive(Debug)]
pub(super) enum Settle {
    Ack(Receipt),
    Release(Release),
    Bury(Receipt, String),
}

/// The way to the tasks that settle.
#[derive(Clone, Debug)]
pub(super) struct Settler {
    queue: mpsc::Sender<Waiting>,
    later: Later,
}

#[derive(Debug)]
struct Waiting {
    settle: Settle,
    answer: oneshot::Sender<Result<Settled, Error>>,
}

// === impl Settler ===

impl Settler {
    pub(super) fn start(client: Client, tasks: &TaskTracker) -> Self {
        let (queue, waiting) = mpsc::channel(QUEUE);
        let gathering = Gathering { most: crate::MAX_IDS_A_CALL, in_flight: 2, linger: Duration::ZERO };
        let later = Later::start(client.clone(), tasks);
        tasks.spawn(async move { gathering.run(waiting, |gathered| settle_all(&client, gathered)).await });
        Self { queue, later }
    }

    pub(super) async fn settle(&self, settle: Settle) -> Result<Settled, Error> {
        let (answer, answered) = oneshot::channel();
        self.queue.send(Waiting { settle, answer }).await.map_err(|_| Error::Closed)?;
        answered.await.map_err(|_| Error::Closed)?
    }

    /// Acks without waiting, and not at once.
    pub(super) fn ack_later(&self, receipt: Receipt) {
        self.later.ack(receipt);
    }

    /// Settles without waiting; where the queue is full, the lease has to run out.
    pub(super) fn settle_later(&self, settle: Settle) {
        let (answer, _) = oneshot::channel();
        let _ = self.queue.try_send(Waiting { settle, answer });
    }
}

async fn settle_all(client: &Client, gathered: Vec<Waiting>) {
    let (mut acks, mut releases, mut buried) = (Sorted::new(), Sorted::new(), Sorted::new());
    for Waiting { settle, answer } in gathered {
        match settle {
            Settle::Ack(receipt) => acks.push(receipt, answer),
            Settle::Release(release) => releases.push(release, answer),
            Settle::Bury(receipt, reason) => buried.push((receipt, reason), answer),
        }
    }
    let (acked, released, dead) = futures_util::join!(
        client.ack(&acks.items),
        client.release(&releases.items),
        client.bury(&buried.items),
    );
    acks.answer(acked);
    releases.answer(released);
    buried.answer(dead);
}

/// Settlements of one kind, and who waits for each.
struct Sorted<T> {
    items: Vec<T>,
    waiting: Vec<oneshot::Sender<Result<Settled, Error>>>,
}

// === impl Sorted ===

impl<T> Sorted<T> {
    fn new() -> Self {
        Self { items: Vec::new(), waiting: Vec::new() }
    }

    fn push(&mut self, item: T, waiting: oneshot::Sender<Result<Settled, Error>>) {
        self.items.push(item);
        self.waiting.push(waiting);
    }

    /// Tells each who waits; they may be gone: it is settled all the same.
    fn answer(self, answers: Vec<Result<Settled, Error>>) {
        for (waiting, answer) in self.waiting.into_iter().zip(answers) {
            let _ = waiting.send(answer);
        }
    }
}
