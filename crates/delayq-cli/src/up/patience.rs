//! Waits for starting servers.

use super::child::Child;
use crate::failure::UNREACHABLE;
use delayq_service::Fault;
use std::path::PathBuf;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Maximum time until a server answers: Redis reads the append-only file first.
const READY_WITHIN: Duration = Duration::from_secs(120);
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Waits for starting servers, unless a server ends or the time runs out.
pub(super) struct Patience<'c> {
    children: &'c [Child],
    log: PathBuf,
    deadline: Instant,
}

// === impl Patience ===

impl<'c> Patience<'c> {
    pub(super) fn new(children: &'c [Child], log: PathBuf) -> Self {
        Self { children, log, deadline: Instant::now() + READY_WITHIN }
    }

    /// Fails if a server has ended, or took too long.
    pub(super) async fn wait(&mut self, fault: &str) -> Result<(), Fault> {
        let log = self.log.display();
        for child in self.children {
            let name = &child.record.name;
            if let Some(status) = child.ended() {
                return Err(Fault::new(
                    &UNREACHABLE,
                    format!("{name} exited while starting ({status}); see {log}"),
                ));
            }
            if Instant::now() > self.deadline {
                return Err(Fault::new(&UNREACHABLE, format!("{name} does not answer ({fault}); see {log}")));
            }
        }
        sleep(POLL_INTERVAL).await;
        Ok(())
    }
}
