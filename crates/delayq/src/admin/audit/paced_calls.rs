//! Calls that leave Redis to other clients most of the time, by a rest after each call.

use crate::admin::key_scan::KeyScan;
use crate::client::Client;
use crate::clock;
use crate::error::Error;
use delayq_core::call::Call;
use delayq_core::keys::Keys;
use delayq_core::reply::{ReplyError, Value};
use delayq_core::shard::{ShardCount, ShardId};
use redis::{Cmd, FromRedisValue, Pipeline};
use std::time::Duration;

/// Shorter rests are added up: a sleep cannot be this short.
const SHORTEST_REST: Duration = Duration::from_millis(2);

/// A deployment that gets one call at a time, for no more than a share of the time.
#[derive(Clone, Debug)]
pub(in crate::admin) struct PacedCalls {
    client: Client,
    pace: Pace,
}

/// The rest to take. Pure.
#[derive(Clone, Debug)]
struct Pace {
    share: f64,
    owed: Duration,
}

// === impl PacedCalls ===

impl PacedCalls {
    /// `share`, more than 0 and at most 1: the maximum part of the time for calls, network time included; 1: no rest.
    pub(in crate::admin) fn new(client: Client, share: f64) -> Self {
        Self { client, pace: Pace { share, owed: Duration::ZERO } }
    }

    pub(super) const fn share(&self) -> f64 {
        self.pace.share
    }

    pub(super) fn keys(&self) -> &Keys {
        self.client.calls.keys()
    }

    pub(super) fn shards(&self) -> ShardCount {
        self.client.calls.shards()
    }

    /// Sends one call, reads the answer, and rests.
    pub(super) async fn ask<A>(
        &mut self,
        call: Call,
        read: impl FnOnce(Value) -> Result<A, ReplyError>,
    ) -> Result<A, Error> {
        let sent = clock::instant();
        let answer = self.client.calls.ask(call, read).await;
        self.rest(sent.elapsed()).await;
        answer
    }

    /// Runs one command at the node of this shard, and rests.
    pub(super) async fn run(&mut self, shard: ShardId, command: &Cmd) -> Result<redis::Value, Error> {
        let sent = clock::instant();
        let answer = match self.client.calls.link_of(shard).await {
            Ok(link) => link.run(command).await,
            Err(error) => Err(error),
        };
        self.rest(sent.elapsed()).await;
        answer
    }

    /// Runs commands in one pipeline at the node of this shard, and rests.
    pub(super) async fn pipeline(
        &mut self,
        shard: ShardId,
        pipeline: &Pipeline,
    ) -> Result<Vec<Result<redis::Value, Error>>, Error> {
        let sent = clock::instant();
        let answers = match self.client.calls.link_of(shard).await {
            Ok(link) => link.pipeline(pipeline).await,
            Err(error) => Err(error),
        };
        self.rest(sent.elapsed()).await;
        answers
    }

    /// Runs one command with an answer of this type at the node of this shard, and rests.
    pub(super) async fn query<T: FromRedisValue>(
        &mut self,
        shard: ShardId,
        name: &str,
        command: &Cmd,
    ) -> Result<T, Error> {
        let odd = |error| Error::Unfit(format!("unexpected reply to {name}: {error}"));
        redis::from_redis_value(self.run(shard, command).await?).map_err(odd)
    }

    /// Takes the next step of a walk over keys, and rests.
    pub(super) async fn scan(&mut self, scan: &mut KeyScan) -> Result<Vec<Vec<u8>>, Error> {
        let sent = clock::instant();
        let found = scan.next(self.client.calls.nodes()).await;
        self.rest(sent.elapsed()).await;
        found
    }

    async fn rest(&mut self, took: Duration) {
        if let Some(rest) = self.pace.after(took) {
            tokio::time::sleep(rest).await;
        }
    }
}

// === impl Pace ===

impl Pace {
    /// Returns the rest after a call of this duration.
    fn after(&mut self, took: Duration) -> Option<Duration> {
        self.owed += took.mul_f64((1.0 - self.share) / self.share);
        (self.owed >= SHORTEST_REST).then(|| std::mem::take(&mut self.owed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_and_rests_together_keep_the_share_whatever_each_call_takes() {
        for share in [0.001, 0.02, 0.5] {
            let mut pace = Pace { share, owed: Duration::ZERO };
            let (mut called, mut rested) = (Duration::ZERO, Duration::ZERO);
            for n in 0..1000 {
                let took = Duration::from_micros(50 + 37 * n % 900);
                called += took;
                let rest = pace.after(took).unwrap_or_default();
                assert!(rest.is_zero() || rest >= SHORTEST_REST);
                rested += rest;
            }
            let taken = called.as_secs_f64() / (called + rested + pace.owed).as_secs_f64();
            assert!((taken / share - 1.0).abs() < 1e-6, "{taken} instead of {share}");
        }
    }

    #[test]
    fn who_may_take_all_the_time_never_rests() {
        let mut pace = Pace { share: 1.0, owed: Duration::ZERO };
        assert_eq!(pace.after(Duration::from_secs(10)), None);
    }
}
