//! A storm: many messages due at one instant.

use crate::bare::Request;
use crate::bench::{Bench, Prepared};
use crate::clock;
use crate::error::BenchError;
use crate::figures::{Figure, Target, percentile_ms};
use crate::shape::Shape;
use crate::timers::Timers;
use delayq::UnixMillis;
use delayq::protocol::{ShardId, Verb};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const MESSAGES: usize = 50_000;

/// Delay of the instant: enough time to put all messages.
const AHEAD: Duration = Duration::from_secs(6);

// === impl Bench ===

impl Bench {
    /// 50,000 messages due at one instant: time until all are ready, compared with a bare loop of the same pump script,
    /// and round trips of a PING meanwhile. `timers` are two timers.
    pub(crate) async fn storm(&self, shape: Shape, timers: &Timers) -> Result<Vec<Figure>, BenchError> {
        let (mut prepared, due) = self.gather_storm(shape).await?;
        prepared.wait_until(due).await?;
        bare_pump(&mut prepared).await?;
        let limit = last_ready(&prepared, due).await?;

        let (mut prepared, due) = self.gather_storm(shape).await?;
        let stop = Arc::new(AtomicBool::new(false));
        let watch = async {
            prepared.owned_by(timers).await?;
            prepared.wait_until(due).await?;
            let pinging = {
                let (address, stop) = (self.address.clone(), Arc::clone(&stop));
                tokio::task::spawn_blocking(move || pings(&address, &stop))
            };
            all_ready(&mut prepared).await?;
            stop.store(true, Ordering::Relaxed);
            let pings = pinging.await.map_err(|error| BenchError::Wrong(error.to_string()))??;
            Ok::<_, BenchError>((last_ready(&prepared, due).await?, pings))
        };
        let (measured, mut pings) = timers.during(self.client(shape.shards), watch).await?;
        pings.sort_unstable();
        let ms = |name, measured, most| Figure::new(shape, name, "ms", measured).target(Target::AtMost(most));
        let all = |last: Duration| last.as_secs_f64() * 1000.0;
        Ok(vec![
            ms("storm of 50,000, all ready after", all(measured), 150.0).limit(all(limit)),
            ms("storm, PING, p99", percentile_ms(&pings, 0.99), 1.0),
            ms("storm, PING, longest", percentile_ms(&pings, 1.0), 5.0),
        ])
    }

    async fn gather_storm(&self, shape: Shape) -> Result<(Prepared, UnixMillis), BenchError> {
        let mut prepared = self.prepared(shape).await?;
        let due = prepared.redis_ms().await? + AHEAD;
        prepared.fill(MESSAGES, due, 1).await?;
        if prepared.redis_ms().await? >= due {
            return Err(BenchError::Wrong("this machine cannot put 50,000 messages in 6 s".to_owned()));
        }
        Ok((prepared, due))
    }
}

/// The limit: the pump script on every shard in one pipeline, repeated until nothing is due.
async fn bare_pump(prepared: &mut Prepared) -> Result<(), BenchError> {
    let shards: Vec<ShardId> = prepared.client.shards().shards().collect();
    let call = |&shard| {
        let mut words = prepared.call(Verb::Pump, shard);
        words.extend([b"1".to_vec(), b"500".to_vec()]);
        Request::new(&words)
    };
    let requests: Vec<Request> = shards.iter().map(call).collect();
    for _ in 0..MESSAGES / 500 / requests.len() + 3 {
        prepared.bare.drive(&requests, requests.len()).await?;
    }
    Ok(())
}

/// Round trips of sequential PINGs in µs until `stop` is set, on a thread that only waits for Redis.
fn pings(address: &str, stop: &AtomicBool) -> io::Result<Vec<u64>> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    let mut waits = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let start = clock::now();
        stream.write_all(b"PING\r\n")?;
        stream.read_exact(&mut [0; b"+PONG\r\n".len()])?;
        waits.push(clock::micros(clock::now() - start));
    }
    Ok(waits)
}

async fn all_ready(prepared: &mut Prepared) -> Result<(), BenchError> {
    let start = clock::now();
    loop {
        let ready = prepared.stat("ready:1").await?;
        if ready >= MESSAGES as u64 {
            return Ok(());
        }
        if clock::now() - start > clock::PATIENCE {
            return Err(BenchError::Wrong(format!(
                "only {ready} of {MESSAGES} became ready within a minute"
            )));
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Time from the instant until the last message became ready, by its own stamp.
async fn last_ready(prepared: &Prepared, due: UnixMillis) -> Result<Duration, BenchError> {
    let (mut last, mut count) = (Duration::ZERO, 0);
    for message in prepared.ready().await? {
        if message.ready.0 < due.get() * 1000 {
            return Err(BenchError::Wrong(format!("{} was ready early", message.id)));
        }
        last = last.max(message.ready.since(due));
        count += 1;
    }
    if count == MESSAGES {
        Ok(last)
    } else {
        Err(BenchError::Wrong(format!("{count} of {MESSAGES} were ready")))
    }
}
