//! Idle: the cost of a deployment while nothing is due.

use crate::bare::Bare;
use crate::bench::Bench;
use crate::clock::own_cpu;
use crate::error::BenchError;
use crate::figures::{Figure, Target};
use crate::server::{number, redis_cpu, section};
use crate::shape::Shape;
use crate::timers::Timers;
use std::time::Duration;

const MESSAGES: usize = 1_000_000;
/// One period of the rarest poll.
const WATCHED: Duration = Duration::from_secs(60);
/// Time for the timers to settle before the measurement.
const SETTLE: Duration = Duration::from_secs(10);

// === impl Bench ===

impl Bench {
    /// Commands per shard, and CPU of timers and Redis, with a million messages due in a month. `timers` are two timers
    /// in this process.
    pub(crate) async fn idle(&self, shape: Shape, timers: &Timers) -> Result<Vec<Figure>, BenchError> {
        let mut prepared = self.prepared(shape).await?;
        let due = prepared.redis_ms().await? + Duration::from_secs(30 * 24 * 3600);
        prepared.fill(MESSAGES, due, 3_600_000).await?;
        let watch = async {
            prepared.owned_by(timers).await?;
            tokio::time::sleep(SETTLE).await;
            let before =
                (requests(&mut prepared.bare).await?, redis_cpu(&mut prepared.bare).await?, own_cpu());
            tokio::time::sleep(WATCHED).await;
            let after =
                (requests(&mut prepared.bare).await?, redis_cpu(&mut prepared.bare).await?, own_cpu());
            Ok::<_, BenchError>((after.0 - before.0, after.1 - before.1, after.2 - before.2))
        };
        let (requests, redis, timers) = timers.during(self.client(shape.shards), watch).await?;
        let seconds = WATCHED.as_secs_f64();
        let figure = |name, unit, measured| Figure::new(shape, name, unit, measured);
        let each = requests / seconds / f64::from(shape.shards.get());
        Ok(vec![
            figure("idle, requests for each shard", "/s", each).target(Target::AtMost(0.2)),
            figure("idle, a core for each of two timers", "%", 100.0 * timers / seconds / 2.0)
                .target(Target::AtMost(1.0)),
            figure("idle, a core for Redis", "%", 100.0 * redis / seconds),
        ])
    }
}

async fn requests(bare: &mut Bare) -> Result<f64, BenchError> {
    const SENT: [&str; 4] =
        ["cmdstat_evalsha:", "cmdstat_ping:", "cmdstat_ssubscribe:", "cmdstat_script|load:"];
    let text = section(bare, "commandstats").await?;
    Ok(SENT.iter().map(|sent| number(&text, sent, "calls=")).sum())
}
