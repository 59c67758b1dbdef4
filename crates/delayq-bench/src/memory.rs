//! Memory: bytes of a pending message, beside a bare string and a sorted set.

use crate::{
    bare::{Answer, Bare},
    bench::{Bench, BenchError, body},
    figures::{Figure, Target},
};
use std::time::Duration;

const MESSAGES: usize = 100_000;

// === impl Bench ===

impl Bench {
    /// Bytes of a pending message of 200 bytes with a generated id, due at a random time of one hour.
    ///
    /// # Errors
    /// Redis cannot be used.
    pub async fn bytes_a_message(&self) -> Result<Figure, BenchError> {
        let mut ground = self.ground(1).await?;
        let before = used_memory(&mut ground.bare).await?;
        for i in 0..MESSAGES {
            let key = format!("{{dq:0}}:m:1:{i:016}");
            ground.bare.call(&[b"SET", key.as_bytes(), &body()]).await?;
            let (score, member) = (fastrand::u64(0..3_600_000).to_string(), format!("{i:020}"));
            ground.bare.call(&[b"ZADD", b"{dq:0}:bare", score.as_bytes(), member.as_bytes()]).await?;
        }
        let limit = (used_memory(&mut ground.bare).await? - before) / MESSAGES as f64;

        let mut ground = self.ground(1).await?;
        let before = used_memory(&mut ground.bare).await?;
        let now = ground.redis_ms().await?;
        let hour = delayq_core::UnixMillis::new((now.hour() + 24) * 3_600_000);
        ground.fill(MESSAGES, hour, 3_600_000).await?;
        let measured = (used_memory(&mut ground.bare).await? - before) / MESSAGES as f64;
        let name = "bytes a pending message of 200 B";
        Ok(Figure { name, unit: "B", measured, limit: Some(limit), target: Target::AtMost(480.0) })
    }

    /// Commands a second that an idle deployment costs, for each shard, with 10,000 messages that are far away.
    /// `run` runs a timer on the deployment for as long as its future lives.
    ///
    /// # Errors
    /// Redis cannot be used.
    pub async fn idle_commands<F>(
        &self,
        run: impl FnOnce(delayq_core::Client) -> F,
    ) -> Result<Figure, BenchError>
    where
        F: Future<Output = ()>,
    {
        const SHARDS: u16 = 16;
        const WATCHED: Duration = Duration::from_secs(20);
        let mut ground = self.ground(SHARDS).await?;
        let due = ground.redis_ms().await? + Duration::from_secs(30 * 24 * 3600);
        ground.fill(10_000, due, 3_600_000).await?;
        let watch = async {
            tokio::time::sleep(Duration::from_secs(3)).await;
            let before = commands(&mut ground.bare).await?;
            tokio::time::sleep(WATCHED).await;
            Ok::<_, BenchError>(commands(&mut ground.bare).await? - before - 1.0)
        };
        tokio::pin!(watch);
        let commands = tokio::select! {
            commands = &mut watch => commands?,
            () = run(ground.client.clone()) => return Err(BenchError::Wrong("the timer stopped".to_owned())),
        };
        let measured = commands / WATCHED.as_secs_f64() / f64::from(SHARDS);
        let name = "idle, commands for each shard";
        Ok(Figure { name, unit: "/s", measured, limit: None, target: Target::AtMost(1.0) })
    }
}

async fn used_memory(bare: &mut Bare) -> Result<f64, BenchError> {
    info(bare, "memory", "used_memory").await
}

async fn commands(bare: &mut Bare) -> Result<f64, BenchError> {
    info(bare, "stats", "total_commands_processed").await
}

async fn info(bare: &mut Bare, section: &str, field: &str) -> Result<f64, BenchError> {
    let Answer::Text(text) = bare.call(&[b"INFO", section.as_bytes()]).await? else {
        return Err(BenchError::Wrong("INFO answered no text".to_owned()));
    };
    let text = String::from_utf8_lossy(&text).into_owned();
    text.lines()
        .find_map(|line| line.strip_prefix(field)?.strip_prefix(':')?.trim().parse().ok())
        .ok_or_else(|| BenchError::Wrong(format!("INFO tells no {field}")))
}
