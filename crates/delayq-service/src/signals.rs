//! SIGTERM and SIGINT: the first requests shutdown, the second ends the process at once.
//!
//! A supervisor may signal a process and its group, or send both signals, at the same instant: further signals within
//! [`SAME_STOP`] of the first belong to the same request.

use crate::codes::SYSTEM;
use crate::exit::Exit;
use crate::fault::Fault;
use crate::shutdown::Shutdown;
use crate::tasks::Tasks;
use std::process;
use std::time::{Duration, Instant};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Signals this soon after the first belong to the same request to stop.
const SAME_STOP: Duration = Duration::from_secs(1);

/// The two signals, caught from creation on.
#[derive(Debug)]
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

/// SIGHUP, caught from creation on: a request to read the log filter again.
#[derive(Debug)]
pub(crate) struct Hangups(Option<Signal>);

// === impl Hangups ===

impl Hangups {
    /// Catches SIGHUP from now on, inside a runtime. If the system refuses, no signal ever arrives.
    pub(crate) fn catch() -> Self {
        Self(signal(SignalKind::hangup()).ok())
    }

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

    /// Requests shutdown at the first signal; at the second, names the running tasks and exits.
    pub async fn obey(mut self, shutdown: Shutdown, tasks: Tasks) {
        let (first, begun) = self.first().await;
        tracing::info!(signal = first, "stopping; a second signal stops at once");
        shutdown.request();
        let second = self.second(begun).await;
        let left_running = tasks.running().join(", ");
        tracing::error!(signal = second, left_running, "second signal: stopping at once");
        process::exit(i32::from(Exit::DrainDeadline.code()));
    }

    /// The first signal, with its time. Cancel safe.
    pub async fn first(&mut self) -> (&'static str, Instant) {
        (self.next().await, Instant::now())
    }

    /// The next signal that is separate from the first, which came at `begun`. Cancel safe.
    pub async fn second(&mut self, begun: Instant) -> &'static str {
        loop {
            let signal = self.next().await;
            if begun.elapsed() >= SAME_STOP {
                return signal;
            }
            tracing::info!(signal, "duplicate signal ignored: already stopping");
        }
    }

    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}
