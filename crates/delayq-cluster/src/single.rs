//! One owner of everything, without etcd: the same interface, fewer promises.

use crate::claim_book::ClaimBook;
use crate::membership::{Desired, Leaving, Standing};
use crate::ownership::{LossReason, Lost, OwnershipView};
use crate::trust::{Signal, Trust};
use delayq::protocol::ShardId;
use std::collections::BTreeSet;
use std::sync::Arc;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

/// What single mode cannot promise; to be logged at start.
pub const SINGLE_MODE_LIMITS: &str = "single mode: this process owns every shard and nobody takes over when it ends. \
    While it is stopped, nothing becomes ready; what fell due meanwhile goes out, late, when it is started again. \
    A second process is kept out by a lock in Redis only; with that lock lost both would pump, which costs \
    work but delivers nothing twice. For hand-over and failover, configure etcd.";

/// The task that stands in for a cluster.
pub(crate) struct Single {
    pub(crate) desired: watch::Receiver<Desired>,
    pub(crate) confirmed: mpsc::UnboundedReceiver<Vec<Lost>>,
    pub(crate) standing: watch::Sender<Standing>,
    pub(crate) board: watch::Sender<Arc<OwnershipView>>,
    pub(crate) leaving: Leaving,
    pub(crate) book: ClaimBook,
}

// === impl Single ===

impl Single {
    /// Owns everything until it drains or leaves.
    pub(crate) async fn run(mut self) {
        loop {
            self.settle();
            tokio::select! {
                biased;
                _ = self.leaving.changed() => break,
                Ok(()) = self.desired.changed() => {}
                Some(stopped) = self.confirmed.recv() => stopped.iter().for_each(|lost| self.book.confirmed(lost)),
                else => break,
            }
        }
        self.signal(Signal::Leave);
        self.book.drop_all(&LossReason::Left);
        self.publish();
    }

    /// Nobody contends: whatever is wanted is won, whatever is stopped is given back.
    pub(crate) fn settle(&mut self) {
        let desired = self.desired.borrow_and_update().clone();
        if desired.draining {
            self.signal(Signal::Drain);
        }
        let mine: BTreeSet<ShardId> =
            if desired.draining { BTreeSet::new() } else { desired.shards.shards().collect() };
        self.book.plan(1, &mine, |_| None, |_| false);
        self.book.start_yields(usize::MAX);
        for shard in self.book.start_claims(usize::MAX) {
            self.book.claim_won(shard, 0);
        }
        for shard in self.book.start_deletes(usize::MAX) {
            self.book.deleted(shard);
        }
        self.publish();
    }

    fn signal(&self, signal: Signal) {
        self.standing.send_modify(|standing| standing.trust = standing.trust.after(signal, Instant::now()));
    }

    fn publish(&self) {
        self.board.send_replace(Arc::new(self.book.view(self.standing.borrow().trust)));
    }
}

/// How the only member stands: trusted for ever.
pub(crate) fn standing() -> Standing {
    Standing { session: None, trust: Trust::Trusted { until: None } }
}
