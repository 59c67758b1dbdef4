//! Memory: bytes of a pending message, compared with a bare string and a sorted set.

use crate::bare::Bare;
use crate::bench::Bench;
use crate::error::BenchError;
use crate::figures::{Figure, Target};
use crate::messages::body;
use crate::server::section;
use crate::shape::Shape;

const MESSAGES: usize = 100_000;

// === impl Bench ===

impl Bench {
    /// Bytes of a pending message of 200 bytes, compared with a bare string and a sorted set.
    pub(crate) async fn memory(&self, shape: Shape) -> Result<Figure, BenchError> {
        let limit = self.bare_bytes(shape).await?;
        let figure = self.bytes_a_message(shape).await?.limit(limit);
        Ok(if shape.groups { figure } else { figure.target(Target::AtMost(480.0)) })
    }

    pub(crate) async fn bytes_a_message(&self, shape: Shape) -> Result<Figure, BenchError> {
        let mut prepared = self.prepared(shape).await?;
        let before = used_memory(&mut prepared.bare).await?;
        let now = prepared.redis_ms().await?;
        let hour = delayq::UnixMillis::new((now.hour() + 24) * 3_600_000);
        prepared.fill(MESSAGES, hour, 3_600_000).await?;
        let measured = (used_memory(&mut prepared.bare).await? - before) / MESSAGES as f64;
        Ok(Figure::new(shape, "bytes a pending message of 200 B", "B", measured))
    }

    async fn bare_bytes(&self, shape: Shape) -> Result<f64, BenchError> {
        let mut prepared = self.prepared(shape).await?;
        let before = used_memory(&mut prepared.bare).await?;
        for i in 0..MESSAGES {
            let key = format!("{{dq:0}}:m:1:{i:016}");
            prepared.bare.call(&[b"SET", key.as_bytes(), &body()[..]]).await?;
            let (score, member) = (fastrand::u64(0..3_600_000).to_string(), format!("{i:020}"));
            prepared.bare.call(&["ZADD", "{dq:0}:bare", &score, &member]).await?;
        }
        Ok((used_memory(&mut prepared.bare).await? - before) / MESSAGES as f64)
    }
}

async fn used_memory(bare: &mut Bare) -> Result<f64, BenchError> {
    let text = section(bare, "memory").await?;
    text.lines()
        .find_map(|line| line.strip_prefix("used_memory:")?.trim().parse().ok())
        .ok_or_else(|| BenchError::Wrong("INFO has no used_memory".to_owned()))
}
