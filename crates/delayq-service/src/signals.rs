//! SIGTERM and SIGINT: the first requests shutdown, the second ends the process at once.

use crate::codes::SYSTEM;
use crate::exit::Exit;
use crate::fault::Fault;
use crate::shutdown::Shutdown;
use crate::tasks::Tasks;
use std::process;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The two signals, caught from the moment this exists.
#[derive(Debug)]
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

/// SIGHUP, caught from the moment this exists: it asks to read the log filter again.
#[derive(Debug)]
pub(crate) struct Hangups(Option<Signal>);

// === impl Hangups ===

impl Hangups {
    /// Catches it from now on, inside a runtime. Where the system refuses, it never comes.
    pub(crate) fn catch() -> Self {
        Self(signal(SignalKind::hangup()).ok())
    }

    /// The next one. Cancel safe.
    pub(crate) async fn next(&mut self) {
        match &mut self.0 {
            Some(hangups) => _ = hangups.recv().await,
            None => std::future::pending().await,
        }
    }
}

// === impl Signals ===

impl Signals {
    /// Catches both signals from now on.
    ///
    /// # Errors
    /// [`SYSTEM`] if the handlers cannot be set.
    pub fn catch() -> Result<Self, Fault> {
        let caught =
            |kind| signal(kind).map_err(|error| Fault::new(&SYSTEM, "cannot catch signals").because(error));
        Ok(Self { terminate: caught(SignalKind::terminate())?, interrupt: caught(SignalKind::interrupt())? })
    }

    /// Requests shutdown at the first signal; at the second, names what still runs and exits.
    pub async fn obey(mut self, shutdown: Shutdown, tasks: Tasks) {
        let first = self.next().await;
        tracing::info!(signal = first, "stopping; a second signal stops at once");
        shutdown.request();
        let second = self.next().await;
        let left_running = tasks.running().join(", ");
        tracing::error!(signal = second, left_running, "second signal: stopping at once");
        process::exit(i32::from(Exit::DrainDeadline.code()));
    }

    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}
