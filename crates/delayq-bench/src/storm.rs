//! A storm: many messages due at one instant.

use crate::{
    bare::{Answer, Bare, Request},
    bench::{Bench, BenchError, Ground},
    clock,
    figures::{Figure, Target, percentile_ms},
};
use delayq_core::{Client, ReserveRequest, ShardId, UnixMillis, Verb};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

const MESSAGES: usize = 100_000;
const SHARDS: u16 = 16;

/// How far ahead the instant is: long enough to put all of them.
const AHEAD: Duration = Duration::from_secs(6);

// === impl Bench ===

impl Bench {
    /// 100,000 messages due at one instant over 16 shards: how many become ready a second, beside a bare loop of the
    /// same pump script, and how long a PING waits meanwhile at most. `run` runs a timer on the deployment for as
    /// long as its future lives.
    ///
    /// # Errors
    /// Redis cannot be used, or not all of them became ready within a minute.
    pub async fn storm<F>(&self, run: impl FnOnce(Client) -> F) -> Result<Vec<Figure>, BenchError>
    where
        F: Future<Output = ()>,
    {
        let (mut ground, due) = self.gather_storm().await?;
        wait_until(&mut ground, due).await?;
        bare_pump(&mut ground).await?;
        let limit = MESSAGES as f64 / last_ready(&ground, due).await?.as_secs_f64();

        let (mut ground, due) = self.gather_storm().await?;
        let stop = Arc::new(AtomicBool::new(false));
        let watch = async {
            let mut ping = Bare::connect(&self.address).await?;
            wait_until(&mut ground, due).await?;
            let pinging = {
                let stop = Arc::clone(&stop);
                tokio::spawn(async move { ping.ping_until(&stop).await })
            };
            all_ready(&mut ground).await?;
            stop.store(true, Ordering::Relaxed);
            let pings = pinging.await.map_err(|error| BenchError::Wrong(error.to_string()))??;
            Ok::<_, BenchError>((MESSAGES as f64 / last_ready(&ground, due).await?.as_secs_f64(), pings))
        };
        tokio::pin!(watch);
        let client = self.client(SHARDS)?;
        let (measured, mut pings) = tokio::select! {
            measured = &mut watch => measured?,
            () = run(client) => return Err(BenchError::Wrong("the timer stopped".to_owned())),
        };
        pings.sort_unstable();
        Ok(vec![
            Figure {
                name: "storm of 100,000, ready",
                unit: "/s",
                measured,
                limit: Some(limit),
                target: Target::OfLimit(0.7),
            },
            Figure {
                name: "storm, longest PING",
                unit: "ms",
                measured: percentile_ms(&pings, 1.0),
                limit: None,
                target: Target::AtMost(5.0),
            },
        ])
    }

    async fn gather_storm(&self) -> Result<(Ground, UnixMillis), BenchError> {
        let mut ground = self.ground(SHARDS).await?;
        let due = ground.redis_ms().await? + AHEAD;
        ground.fill(MESSAGES, due, 1).await?;
        if ground.redis_ms().await? >= due {
            return Err(BenchError::Wrong("this machine cannot put 100,000 messages in 6 s".to_owned()));
        }
        Ok((ground, due))
    }
}

async fn wait_until(ground: &mut Ground, due: UnixMillis) -> Result<(), BenchError> {
    let left = due.since(ground.redis_ms().await?);
    tokio::time::sleep(left).await;
    Ok(())
}

/// The limit: the pump script on every shard in one pipeline, again and again, until nothing is due.
async fn bare_pump(ground: &mut Ground) -> Result<(), BenchError> {
    let requests: Vec<Request> = ground
        .client
        .shards()
        .shards()
        .map(|shard| {
            let (meta, never) = (ground.client.keys().meta(shard), ground.client.keys().never(shard));
            let sha = ground.sha(Verb::Pump);
            Request::new(&[b"EVALSHA", sha, b"2", meta.as_bytes(), never.as_bytes(), b"1", b"1", b"500"])
        })
        .collect();
    for _ in 0..MESSAGES / 500 / usize::from(SHARDS) + 3 {
        ground.bare.drive(&requests, requests.len()).await?;
    }
    Ok(())
}

/// Waits until every message is in its ready queue.
async fn all_ready(ground: &mut Ground) -> Result<(), BenchError> {
    let start = clock::now();
    loop {
        let mut ready = 0;
        for shard in ground.client.shards().shards() {
            let stats = ground.client.keys().base(shard) + "stats";
            if let Answer::Text(count) = ground.bare.call(&[b"HGET", stats.as_bytes(), b"ready:1"]).await? {
                ready += String::from_utf8_lossy(&count).parse::<usize>().unwrap_or(0);
            }
        }
        if ready >= MESSAGES {
            return Ok(());
        }
        if clock::now() - start > crate::bench::PATIENCE {
            return Err(BenchError::Wrong(format!(
                "only {ready} of {MESSAGES} became ready within a minute"
            )));
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// How long after the instant the last message became ready, by its own stamp.
async fn last_ready(ground: &Ground, due: UnixMillis) -> Result<Duration, BenchError> {
    let request =
        ReserveRequest { topics: vec![ground.topic.clone()], most: 500, most_bytes: 0, lease: None };
    let (mut last, mut count) = (Duration::ZERO, 0);
    for shard in ground.client.shards().shards().collect::<Vec<ShardId>>() {
        loop {
            let report = ground.client.reserve(shard, &request).await?;
            if report.messages.is_empty() {
                break;
            }
            for message in report.messages {
                if message.ready.0 < due.get() * 1000 {
                    return Err(BenchError::Wrong(format!("{} was ready early", message.id)));
                }
                last = last.max(message.ready.since(due));
                count += 1;
            }
        }
    }
    if count == MESSAGES {
        Ok(last)
    } else {
        Err(BenchError::Wrong(format!("{count} of {MESSAGES} were ready")))
    }
}
