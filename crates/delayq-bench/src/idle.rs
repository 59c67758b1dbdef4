//! Idle: what a deployment costs while nothing is due for a long time.

use crate::{
    bare::Bare,
    bench::{Bench, BenchError},
    clock::own_cpu,
    figures::{Figure, Target},
    fleet::Fleet,
    server::{redis_cpu, section},
};
use std::time::Duration;

const SHARDS: u16 = 64;
const MESSAGES: usize = 1_000_000;
/// As long as the rarest look takes to come round.
const WATCHED: Duration = Duration::from_secs(60);
/// How long the timers may settle before they are watched.
const SETTLE: Duration = Duration::from_secs(10);

// === impl Bench ===

impl Bench {
    /// What clients send for each shard, and what the timers and Redis need of a core, with a million messages that are due
    /// in a month. `fleet` is of two timers, in this process.
    ///
    /// # Errors
    /// Redis cannot be used.
    pub async fn idle(&self, fleet: &impl Fleet) -> Result<Vec<Figure>, BenchError> {
        let mut ground = self.ground(SHARDS).await?;
        let due = ground.redis_ms().await? + Duration::from_secs(30 * 24 * 3600);
        ground.fill(MESSAGES, due, 3_600_000).await?;
        let client = self.client(SHARDS)?;
        let watch = async {
            ground.owned_by(fleet).await?;
            tokio::time::sleep(SETTLE).await;
            let before = (requests(&mut ground.bare).await?, redis_cpu(&mut ground.bare).await?, own_cpu());
            tokio::time::sleep(WATCHED).await;
            let after = (requests(&mut ground.bare).await?, redis_cpu(&mut ground.bare).await?, own_cpu());
            Ok::<_, BenchError>((after.0 - before.0, after.1 - before.1, after.2 - before.2))
        };
        let (requests, redis, timers) = tokio::select! {
            watched = watch => watched?,
            () = fleet.run(client) => return Err(BenchError::Wrong("the timers stopped".to_owned())),
        };
        let seconds = WATCHED.as_secs_f64();
        let figure = |name, unit, measured, most| {
            let target = Target::AtMost(most);
            Figure { name, unit, measured, limit: None, target }
        };
        Ok(vec![
            figure("idle, requests for each shard", "/s", requests / seconds / f64::from(SHARDS), 0.2),
            figure("idle, a core for each of two timers", "%", 100.0 * timers / seconds / 2.0, 1.0),
            Figure {
                target: Target::None,
                ..figure("idle, a core for Redis", "%", 100.0 * redis / seconds, 0.0)
            },
        ])
    }
}

/// What clients sent so far: the commands that no script calls.
async fn requests(bare: &mut Bare) -> Result<f64, BenchError> {
    const SENT: [&str; 4] =
        ["cmdstat_evalsha:", "cmdstat_ping:", "cmdstat_ssubscribe:", "cmdstat_script|load:"];
    let text = section(bare, "commandstats").await?;
    let calls = |line: &str| {
        let (_, calls) = line.split_once("calls=")?;
        calls.split(',').next()?.parse::<f64>().ok()
    };
    Ok(text.lines().filter(|line| SENT.iter().any(|sent| line.starts_with(sent))).filter_map(calls).sum())
}
