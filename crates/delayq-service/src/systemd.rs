//! The service manager, where there is one: told when the process is ready, stopping, and alive.

use std::time::Duration;

use sd_notify::NotifyState;

use crate::readiness::Readiness;

/// Everything that can fail is done.
pub(crate) fn ready() {
    tell(&[NotifyState::Ready]);
}

/// The drain begins.
pub(crate) fn stopping() {
    tell(&[NotifyState::Stopping]);
}

/// Tells the manager's watchdog of life twice in each of its intervals; for ever idle without one.
///
/// It runs beside the tasks on their runtime, so a runtime that is stuck falls silent, and so does a process in which
/// anything else with a heartbeat is.
pub(crate) async fn keep_alive(readiness: Readiness) {
    let Some(interval) = sd_notify::watchdog_enabled() else { return std::future::pending().await };
    let mut beat = tokio::time::interval((interval / 2).max(Duration::from_millis(1)));
    loop {
        beat.tick().await;
        match readiness.stuck().first() {
            None => tell(&[NotifyState::Watchdog]),
            Some(stuck) => tracing::error!(stuck, "no sign of life: the service manager is not told of any"),
        }
    }
}

fn tell(state: &[NotifyState<'_>]) {
    // Without a manager this does nothing.
    if let Err(error) = sd_notify::notify(state) {
        tracing::warn!(%error, "the service manager cannot be told");
    }
}
