//! Starts a member's tasks, and reports a task that ended unasked.

use crate::membership::{Desired, Leaving};
use std::future::Future;
use tokio::sync::watch;
use tokio_util::task::TaskTracker;

pub(crate) struct Spawner {
    pub(crate) tasks: TaskTracker,
    leaving: Leaving,
    desired: watch::Receiver<Desired>,
    failed: watch::Sender<Option<&'static str>>,
}

// === impl Spawner ===

impl Spawner {
    pub(crate) fn new(
        leaving: Leaving,
        desired: watch::Receiver<Desired>,
    ) -> (Self, watch::Receiver<Option<&'static str>>) {
        let (failed, failures) = watch::channel(None);
        (Self { tasks: TaskTracker::new(), leaving, desired, failed }, failures)
    }

    /// Starts a task; its end is a failure unless the member leaves, or drains with nothing left to keep.
    pub(crate) fn spawn(&self, name: &'static str, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks.close();
        let running = self.tasks.spawn(task);
        let (leaving, desired, failed) = (self.leaving.clone(), self.desired.clone(), self.failed.clone());
        tokio::spawn(async move {
            let ended = running.await;
            let asked = *leaving.borrow() || leaving.has_changed().is_err() || desired.borrow().draining;
            if !asked || ended.is_err() {
                failed.send_replace(Some(name));
            }
        });
    }
}
