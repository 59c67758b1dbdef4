//! A sweep over a million messages: duration, and share of Redis's time.

use crate::bench::Bench;
use crate::error::BenchError;
use crate::figures::{Figure, Target};
use crate::server::redis_cpu;
use crate::shape::Shape;
use delayq::Admin;
use std::time::{Duration, Instant};

const MESSAGES: usize = 1_000_000;
const HOURS: u64 = 24;
/// Maximum share of time, as `[sweep] share`. Redis's share is lower: the round trip of a call counts too.
const SHARE: f64 = 0.08;

// === impl Bench ===

impl Bench {
    pub(crate) async fn sweep(&self, shape: Shape) -> Result<Vec<Figure>, BenchError> {
        let mut prepared = self.prepared(shape).await?;
        let due = prepared.redis_ms().await? + Duration::from_secs(30 * 24 * 3600);
        prepared.fill(MESSAGES, due, HOURS * 3_600_000).await?;
        let (before, began) = (redis_cpu(&mut prepared.bare).await?, Instant::now());
        let mut sweep = Admin::new(prepared.client.clone()).audit().sweep(SHARE, true);
        let mut looked_at = 0;
        while let Some(swept) = sweep.next().await? {
            looked_at += swept.looked_at;
            if let Some(fault) = swept.faults.first() {
                return Err(BenchError::Wrong(format!("the sweep found {}", fault.what)));
            }
        }
        let (took, redis) = (began.elapsed().as_secs_f64(), redis_cpu(&mut prepared.bare).await? - before);
        if looked_at < 2 * MESSAGES as u64 {
            return Err(BenchError::Wrong(format!("the sweep looked at {looked_at} messages and entries")));
        }
        let figure = |name, unit, measured| Figure::new(shape, name, unit, measured);
        Ok(vec![
            figure("sweep of 1 M messages", "s", took).target(Target::AtMost(60.0)),
            figure("sweep, of Redis's time", "%", 100.0 * redis / took).target(Target::AtMost(5.0)),
        ])
    }
}
