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

    /// Requests a second that an idle deployment costs, for each shard, with 10,000 messages that are far away.
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
            let before = requests(&mut ground.bare).await?;
            tokio::time::sleep(WATCHED).await;
            Ok::<_, BenchError>(requests(&mut ground.bare).await? - before)
        };
        tokio::pin!(watch);
        let requests = tokio::select! {
            requests = &mut watch => requests?,
            () = run(ground.client.clone()) => return Err(BenchError::Wrong("the timer stopped".to_owned())),
        };
        let measured = requests / WATCHED.as_secs_f64() / f64::from(SHARDS);
        let name = "idle, requests for each shard";
        Ok(Figure { name, unit: "/s", measured, limit: None, target: Target::AtMost(1.0) })
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

async fn section(bare: &mut Bare, name: &str) -> Result<String, BenchError> {
    match bare.call(&[b"INFO", name.as_bytes()]).await? {
        Answer::Text(text) => Ok(String::from_utf8_lossy(&text).into_owned()),
        _ => Err(BenchError::Wrong("INFO answered no text".to_owned())),
    }
}

async fn used_memory(bare: &mut Bare) -> Result<f64, BenchError> {
    let text = section(bare, "memory").await?;
    text.lines()
        .find_map(|line| line.strip_prefix("used_memory:")?.trim().parse().ok())
        .ok_or_else(|| BenchError::Wrong("INFO tells no used_memory".to_owned()))
}
