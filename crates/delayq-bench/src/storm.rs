//! A storm: many messages due at one instant.

use crate::{
    address::Address,
    bare::{Answer, Request},
    bench::{Bench, BenchError, Ground},
    clock,
    figures::{Figure, Target, percentile_ms},
    fleet::Fleet,
};
use delayq_core::{ReserveRequest, ShardId, UnixMillis, Verb};
use std::{
    io::{self, Read, Write},
    net::TcpStream,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

const MESSAGES: usize = 50_000;
const SHARDS: u16 = 16;

/// How far ahead the instant is: long enough to put all of them.
const AHEAD: Duration = Duration::from_secs(6);

// === impl Bench ===

impl Bench {
    /// 50,000 messages due at one instant over 16 shards: after what time all are ready, beside a bare loop of the same
    /// pump script, and how long a PING waits meanwhile. `fleet` is of two timers.
    ///
    /// # Errors
    /// Redis cannot be used, or not all of them became ready within a minute.
    pub async fn storm(&self, fleet: &impl Fleet) -> Result<Vec<Figure>, BenchError> {
        let (mut ground, due) = self.gather_storm().await?;
        wait_until(&mut ground, due).await?;
        bare_pump(&mut ground).await?;
        let limit = last_ready(&ground, due).await?;

        let (mut ground, due) = self.gather_storm().await?;
        let stop = Arc::new(AtomicBool::new(false));
        let watch = async {
            ground.owned_by(fleet).await?;
            wait_until(&mut ground, due).await?;
            let pinging = {
                let (address, stop) = (self.address.clone(), Arc::clone(&stop));
                tokio::task::spawn_blocking(move || pings(&address, &stop))
            };
            all_ready(&mut ground).await?;
            stop.store(true, Ordering::Relaxed);
            let pings = pinging.await.map_err(|error| BenchError::Wrong(error.to_string()))??;
            Ok::<_, BenchError>((last_ready(&ground, due).await?, pings))
        };
        let client = self.client(SHARDS)?;
        let (measured, mut pings) = tokio::select! {
            measured = watch => measured?,
            () = fleet.run(client) => return Err(BenchError::Wrong("the timers stopped".to_owned())),
        };
        pings.sort_unstable();
        let ms = |name, measured, limit, most| Figure {
            name,
            unit: "ms",
            measured,
            limit,
            target: Target::AtMost(most),
        };
        let all = |last: Duration| last.as_secs_f64() * 1000.0;
        Ok(vec![
            ms("storm of 50,000, all ready after", all(measured), Some(all(limit)), 150.0),
            ms("storm, PING, p99", percentile_ms(&pings, 0.99), None, 1.0),
            ms("storm, PING, longest", percentile_ms(&pings, 1.0), None, 5.0),
        ])
    }

    async fn gather_storm(&self) -> Result<(Ground, UnixMillis), BenchError> {
        let mut ground = self.ground(SHARDS).await?;
        let due = ground.redis_ms().await? + AHEAD;
        ground.fill(MESSAGES, due, 1).await?;
        if ground.redis_ms().await? >= due {
            return Err(BenchError::Wrong("this machine cannot put 50,000 messages in 6 s".to_owned()));
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

/// The round trips of PINGs, one after the other until `stop` is set, in µs: by a thread of its own, which waits for Redis
/// alone.
fn pings(address: &Address, stop: &AtomicBool) -> io::Result<Vec<u64>> {
    let mut stream = TcpStream::connect(&address.host)?;
    stream.set_nodelay(true)?;
    if let Some(password) = address.password()? {
        stream.write_all(format!("AUTH {password}\r\n").as_bytes())?;
        stream.read_exact(&mut [0; b"+OK\r\n".len()])?;
    }
    let mut waits = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let start = clock::now();
        stream.write_all(b"PING\r\n")?;
        stream.read_exact(&mut [0; b"+PONG\r\n".len()])?;
        waits.push(clock::micros(clock::now() - start));
    }
    Ok(waits)
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
