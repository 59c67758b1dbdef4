//! A single owner of every shard, without etcd: the same interface, fewer promises.

use crate::membership::{Desired, Leaving, Standing};
use crate::ownership::OwnershipView;
use crate::trust::{Signal, Trust};
use std::collections::BTreeSet;
use std::sync::Arc;
use tokio::sync::watch;
use tokio::time::Instant;

/// The limits of single mode; to be logged at start.
pub const SINGLE_MODE_LIMITS: &str = "single mode: this process owns every shard, and no other takes over \
                                      when it ends. While it is stopped, no message becomes ready; messages \
                                      that fell due meanwhile are delivered late, after the next start. A \
                                      lock in Redis keeps a second process out. If the lock is lost, both \
                                      pump, which costs work but delivers no message twice. For hand-over \
                                      and failover, configure etcd.";

pub(crate) struct Single {
    pub(crate) desired: watch::Receiver<Desired>,
    pub(crate) standing: watch::Sender<Standing>,
    pub(crate) view: watch::Sender<Arc<OwnershipView>>,
    pub(crate) leaving: Leaving,
}

// === impl Single ===

impl Single {
    /// Owns every shard until the member drains or leaves.
    pub(crate) async fn run(mut self) {
        loop {
            self.settle();
            tokio::select! {
                biased;
                _ = self.leaving.changed() => break,
                Ok(()) = self.desired.changed() => {}
                else => break,
            }
        }
        self.signal(Signal::Leave);
    }

    /// Plans every shard for this member; once the member drains, for nobody.
    pub(crate) fn settle(&mut self) {
        let Desired { draining, shards, .. } = self.desired.borrow_and_update().clone();
        if draining {
            self.signal(Signal::Drain);
        }
        let (all, trust) = (shards.shards().collect(), self.standing.borrow().trust);
        let (planned, nobodys) = if draining { (BTreeSet::new(), all) } else { (all, BTreeSet::new()) };
        let view = OwnershipView { planned, nobodys, members: 1, plan_version: 1, drained: false, trust };
        self.view.send_replace(Arc::new(view));
    }

    fn signal(&self, signal: Signal) {
        self.standing.send_modify(|standing| standing.trust = standing.trust.after(signal, Instant::now()));
    }
}

/// Trusted forever.
pub(crate) fn standing() -> Standing {
    Standing { session: None, trust: Trust::Trusted { until: None } }
}
