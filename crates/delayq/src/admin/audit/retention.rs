//! Retention: purges dead letters beyond the limits of the topic, the oldest first.

use super::paced_calls::PacedCalls;
use crate::error::Error;
use delayq_core::id::Topic;
use delayq_core::shard::ShardId;
use delayq_core::time::UnixMillis;
use delayq_core::verbs::cursor::Cursor;
use delayq_core::verbs::purge;

/// Dead letters that are purged in one call.
const A_CALL: usize = 100;

// === impl PacedCalls ===

impl PacedCalls {
    /// Purges the dead letters of a topic in a shard that are older than the policy allows, and the oldest dead letters
    /// above the maximum number. Returns the number of purged dead letters.
    pub(super) async fn retain(&mut self, shard: ShardId, number: &str, topic: &str) -> Result<u64, Error> {
        let Ok(topic) = topic.parse::<Topic>() else { return Ok(0) };
        match self.purge_outlived(shard, number, &topic).await {
            Err(error) if error.is_wrong_type() => Ok(0),
            purged => purged,
        }
    }

    async fn purge_outlived(&mut self, shard: ShardId, number: &str, topic: &Topic) -> Result<u64, Error> {
        let base = self.keys().base(shard);
        let mut hmget = redis::cmd("HMGET");
        hmget.arg(format!("{base}t:{number}")).arg("dead_for_ms").arg("dead_max");
        let (dead_for_ms, most): (Option<u64>, Option<usize>) = self.query(shard, "HMGET", &hmget).await?;
        let (dead_for_ms, most) = (dead_for_ms.unwrap_or(0), most.unwrap_or(0));
        let dead = format!("{base}d:{number}");
        let mut purged = 0;
        if dead_for_ms > 0 {
            let (seconds, micros): (u64, u64) = self.query(shard, "TIME", &redis::cmd("TIME")).await?;
            let died = (seconds * 1000 + micros / 1000).saturating_sub(dead_for_ms);
            purged += self.purge_dead(shard, topic, UnixMillis::new(died), usize::MAX).await?;
        }
        let too_many = match most {
            0 => 0,
            most => self
                .query::<usize>(shard, "ZCARD", redis::cmd("ZCARD").arg(&dead))
                .await?
                .saturating_sub(most),
        };
        if too_many > 0 {
            // Both the time and the number are limits, because some dead letters may be replayed meanwhile.
            let mut zrange = redis::cmd("ZRANGE");
            zrange.arg(&dead).arg(too_many - 1).arg(too_many - 1).arg("WITHSCORES");
            let last: Vec<(Vec<u8>, f64)> = self.query(shard, "ZRANGE", &zrange).await?;
            let died = last.first().map_or(0, |&(_, died)| died as u64);
            purged += self.purge_dead(shard, topic, UnixMillis::new(died), too_many).await?;
        }
        Ok(purged)
    }

    /// Purges dead letters that died up to that time, the oldest first and at most `most`.
    async fn purge_dead(
        &mut self,
        shard: ShardId,
        topic: &Topic,
        died: UnixMillis,
        most: usize,
    ) -> Result<u64, Error> {
        let (mut purged, mut seen) = (0, 0);
        let mut cursor = Some(Cursor::from(UnixMillis::new(0)));
        while let Some(at) = cursor.filter(|_| seen < most) {
            let limit = A_CALL.min(most - seen);
            seen += limit;
            let call = purge::some(shard, topic, ("dead", died), &at, limit);
            let (some, next) = self.ask(call, purge::read).await?;
            purged += some.purged;
            cursor = next;
        }
        Ok(purged)
    }
}
