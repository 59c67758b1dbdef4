//! Sweeps: who pumps the first shard looks over the whole deployment from time to time, and mends what is wrong.
//!
//! Redis lists the keys of all shards at once, so one timer sweeps for all: each for its own shards would be a walk over all
//! keys each, and a share of Redis's time each. The epoch of the first shard says who. Two that sweep at once cost time and
//! harm nothing: whatever is mended is looked at once more in the script that mends it.

use crate::events;
use crate::sweep_config::SweepConfig;
use crate::sweep_metrics::SweepMetrics;
use delayq::admin::Sweep;
use delayq::protocol::ShardId;
use delayq::{Admin, Error};
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio::time::sleep;

/// The shard whose owner sweeps.
pub(crate) const FIRST: ShardId = ShardId::new(0);
/// How soon a sweep that was cut off begins again, at most.
const RETRY: Duration = Duration::from_secs(60);

/// What sweeps.
pub(crate) struct Sweeping {
    pub(crate) config: SweepConfig,
    pub(crate) admin: Admin,
    pub(crate) metrics: SweepMetrics,
}

// === impl Sweeping ===

impl Sweeping {
    /// Sweeps while it is this timer's turn; ends when nobody says so any more. What it is at is dropped as soon as another
    /// timer may be at it.
    pub(crate) async fn run(self, mut turn: watch::Receiver<bool>) {
        if self.config.every.is_zero() {
            return;
        }
        while turn.wait_for(|mine| *mine).await.is_ok() {
            tokio::select! {
                biased;
                _ = turn.wait_for(|mine| !mine) => {}
                () = self.sweep_on() => {}
            }
        }
    }

    async fn sweep_on(&self) {
        let every = *self.config.every;
        // Not at once: a fleet that starts has other things to do.
        sleep(every.mul_f64(0.5 + fastrand::f64() / 2.0)).await;
        let mut sweep = self.admin.sweep(self.config.share, !self.config.dry_run);
        loop {
            let started = Instant::now();
            let rest = match self.go_over_all(&mut sweep).await {
                Ok(()) => every.saturating_sub(started.elapsed()),
                Err(error) => {
                    events::sweep_failed(&self.metrics, &error);
                    every.min(RETRY)
                }
            };
            sleep(rest).await;
        }
    }

    async fn go_over_all(&self, sweep: &mut Sweep) -> Result<(), Error> {
        let started = Instant::now();
        let mut found = events::SweptAll::default();
        while let Some(swept) = sweep.next().await? {
            self.metrics.looked_at.inc_by(swept.looked_at);
            self.metrics.outlived.inc_by(swept.outlived);
            for fault in swept.faults {
                found.add(&self.metrics, fault);
            }
        }
        found.log();
        events::swept(&self.metrics, started.elapsed());
        Ok(())
    }
}
