//! What may reach the follower of the plan while it waits for etcd: the member's standing, and its consumer's words.

use crate::membership::{Leaving, Standing, until};
use crate::ownership::Lost;
use crate::trust::Trust;
use tokio::sync::{mpsc, oneshot, watch};

/// What may arrive while anything is waited for.
pub(crate) struct Inbox {
    pub(crate) standing: watch::Receiver<Standing>,
    pub(crate) confirmed: mpsc::UnboundedReceiver<Vec<Lost>>,
    pub(crate) rechecks: mpsc::UnboundedReceiver<oneshot::Sender<()>>,
    pub(crate) leaving: Leaving,
    /// The member drained without an answer from etcd, and said so.
    pub(crate) drained_alone: bool,
}

/// One piece of news.
pub(crate) enum News {
    Standing,
    Confirmed(Vec<Lost>),
    Recheck(oneshot::Sender<()>),
    DrainsAlone,
    Leave,
}

// === impl Inbox ===

impl Inbox {
    /// The next news. Safe to drop.
    pub(crate) async fn next(&mut self) -> News {
        let drains_alone = match self.standing.borrow().trust {
            Trust::Draining { until: Some(at) } if !self.drained_alone => Some(at),
            _ => None,
        };
        tokio::select! {
            biased;
            _ = self.leaving.changed() => News::Leave,
            Ok(()) = self.standing.changed() => News::Standing,
            Some(stopped) = self.confirmed.recv() => News::Confirmed(stopped),
            Some(answer) = self.rechecks.recv() => News::Recheck(answer),
            () = until(drains_alone) => News::DrainsAlone,
        }
    }
}
