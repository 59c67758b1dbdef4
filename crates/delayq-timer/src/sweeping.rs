//! Sweeps: the timer that pumps the first shard checks the whole deployment from time to time, and repairs faults.
//!
//! Redis lists the keys of all shards at once, so one timer sweeps for all: separate sweeps would each walk over all
//! keys, and each take a share of Redis's time. The epoch of the first shard decides which timer sweeps. Two sweeps at
//! once cost time and harm nothing: the script that repairs a fault checks the fault once more.

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
/// Maximum pause before a sweep that was cut off begins again.
const RETRY: Duration = Duration::from_secs(60);

pub(crate) struct Sweeping {
    pub(crate) config: SweepConfig,
    pub(crate) admin: Admin,
    pub(crate) metrics: SweepMetrics,
}

// === impl Sweeping ===

impl Sweeping {
    /// Sweeps during this timer's turns; ends when the sender of `turn` is dropped. Stops as soon as another timer may
    /// sweep, and continues at the same place in its next turn: the findings of a walk survive short outages of Redis
    /// or etcd.
    pub(crate) async fn run(self, mut turn: watch::Receiver<bool>) {
        let every = *self.config.every;
        if every.is_zero() {
            return;
        }
        let mut sweep = self.admin.audit().sweep(self.config.share, !self.config.dry_run);
        // Not at once: a fleet that starts has other work to do.
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
