//! Notifications to the service manager, if present: ready, stopping, alive.

use crate::readiness::Readiness;
use sd_notify::NotifyState;
use std::time::Duration;

pub(crate) fn ready() {
    notify(&[NotifyState::Ready]);
}

pub(crate) fn stopping() {
    notify(&[NotifyState::Stopping]);
}

/// Notifies the manager's watchdog twice in each of its intervals; without a watchdog, waits for ever.
///
/// Runs on the runtime of the tasks, so a stuck runtime stops the notifications, as does a late heartbeat.
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
    // A no-op without a manager.
    if let Err(error) = sd_notify::notify(state) {
        tracing::warn!(%error, "cannot notify the service manager");
    }
}
