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
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

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
    /// Sweeps while it is this timer's turn; ends when nobody says so any more. It stops as soon as another timer may be at it,
    /// and continues there in its next turn: what a walk found is remembered however often Redis or etcd is away for a moment.
    pub(crate) async fn run(self, mut turn: watch::Receiver<bool>) {
        let every = *self.config.every;
        if every.is_zero() {
            return;
        }
        let mut sweep = self.admin.sweep(self.config.share, !self.config.dry_run);
        // Not at once: a fleet that starts has other things to do.
        let mut due = Instant::now() + every.mul_f64(0.5 + fastrand::f64() / 2.0);
        while turn.wait_for(|mine| *mine).await.is_ok() {
            tokio::select! {
                biased;
                _ = turn.wait_for(|mine| !mine) => {}
                () = self.sweep_on(&mut sweep, &mut due) => {}
            }
        }
    }

    async fn sweep_on(&self, sweep: &mut Sweep, due: &mut Instant) {
        let every = *self.config.every;
        loop {
            sleep_until(*due).await;
            let started = Instant::now();
            *due = match self.go_over_all(sweep).await {
                Ok(()) => started + every,
                Err(error) => {
                    events::sweep_failed(&self.metrics, &error);
                    Instant::now() + every.min(RETRY)
                }
            };
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
