//! Notifications to the service manager, if there is one: ready, stopping, alive.

use crate::readiness::Readiness;
use sd_notify::NotifyState;
use std::time::Duration;

/// Everything that can fail is done.
pub(crate) fn ready() {
    notify(&[NotifyState::Ready]);
}

/// The drain begins.
pub(crate) fn stopping() {
    notify(&[NotifyState::Stopping]);
}

/// Notifies the manager's watchdog twice in each of its intervals; without one it waits for ever.
///
/// It runs on the runtime of the tasks, so a stuck runtime falls silent, and so does a process with a late heartbeat.
pub(crate) async fn keep_alive(readiness: Readiness) {
    let Some(interval) = sd_notify::watchdog_enabled() else { return std::future::pending().await };
    let mut beat = tokio::time::interval((interval / 2).max(Duration::from_millis(1)));
    loop {
        beat.tick().await;
        match readiness.stuck().first() {
            None => notify(&[NotifyState::Watchdog]),
            Some(stuck) => tracing::error!(stuck, "a heartbeat is late: not notifying the service manager"),
        }
    }
}

fn notify(state: &[NotifyState<'_>]) {
    // Without a manager this does nothing.
    if let Err(error) = sd_notify::notify(state) {
        tracing::warn!(%error, "cannot notify the service manager");
    }
}
