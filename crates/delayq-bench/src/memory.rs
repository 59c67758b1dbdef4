//! Memory: bytes of a pending message, beside a bare string and a sorted set.

use crate::{
    bare::Bare,
    bench::{Bench, BenchError, body},
    figures::{Figure, Target},
    server::section,
};

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
}

async fn used_memory(bare: &mut Bare) -> Result<f64, BenchError> {
    let text = section(bare, "memory").await?;
    text.lines()
        .find_map(|line| line.strip_prefix("used_memory:")?.trim().parse().ok())
        .ok_or_else(|| BenchError::Wrong("INFO tells no used_memory".to_owned()))
}
