//! The limit of lateness: a bare loop with one sorted set that knows all due times, sleeps precisely, moves due
//! messages by the shortest possible script, and wakes a worker by pub/sub.

use crate::bare::{Answer, Bare, Request};
use crate::clock;
use crate::error::BenchError;
use crate::server::redis_cpu;
use crate::wire::Wire;
use std::time::Duration;
use std::{io, thread};
use tokio::sync::oneshot;

/// Lead of a call before the due time: half a round trip plus the wake-up.
pub(crate) const AIM: Duration = Duration::from_micros(80);
const DUE: &str = "bare:due";
const READY: &str = "bare:ready";
const WAKE: &str = "bare:wake";

/// Moves due members, adding the ready time, and wakes the worker.
const SCRIPT: &str = r"
local t = redis.call('TIME')
local us = t[1] * 1000000 + t[2]
local due = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', (us - us % 1000) / 1000, 'LIMIT', 0, 500)
if #due == 0 then return 0 end
for i = 1, #due do due[i] = due[i] .. ' ' .. string.format('%.0f', us) end
redis.call('RPUSH', KEYS[2], unpack(due))
redis.call('ZREMRANGEBYRANK', KEYS[1], 0, #due - 1)
redis.call('PUBLISH', KEYS[3], '')
return #due
";

/// Sorted waits in µs from due to ready, and from due to a waiting worker's hand.
pub(crate) struct BareWaits {
    pub(crate) ready: Vec<u64>,
    pub(crate) worker: Vec<u64>,
    /// Redis's CPU meanwhile, in percent of a core.
    pub(crate) redis_percent: f64,
}

pub(crate) async fn run(address: &str, mut dues_ms: Vec<u64>) -> Result<BareWaits, BenchError> {
    let mut bare = Bare::connect(address).await?;
    bare.call(&["FLUSHALL"]).await?;
    dues_ms.sort_unstable();
    for some in dues_ms.chunks(500).enumerate().map(|(batch, dues)| add(batch, dues)) {
        bare.drive(&[some], 1).await?;
    }
    let Answer::Text(sha) = bare.call(&["SCRIPT", "LOAD", SCRIPT]).await? else {
        return Err(BenchError::Wrong("SCRIPT LOAD answered no text".to_owned()));
    };
    let first = Duration::from_millis(dues_ms.first().copied().unwrap_or(0));
    let work = {
        let (address, count) = (address.to_owned(), dues_ms.len());
        move |ready| work(&address, count, ready)
    };
    dues_ms.dedup();
    let pump = {
        let address = address.to_owned();
        move || pump(&address, &sha, &dues_ms)
    };
    deliver(&mut bare, first, pump, work).await
}

/// A loop and a worker, each on its own thread; the first message is due at `first` since the epoch. The
/// worker reports when it is ready, and answers with ready − due and in hand − due of each message.
pub(crate) async fn deliver(
    bare: &mut Bare,
    first: Duration,
    pump: impl FnOnce() -> io::Result<()> + Send + 'static,
    work: impl FnOnce(oneshot::Sender<()>) -> io::Result<Vec<(u64, u64)>> + Send + 'static,
) -> Result<BareWaits, BenchError> {
    let (ready, started) = oneshot::channel();
    let worker = thread::spawn(move || work(ready));
    started.await.map_err(|_| BenchError::Wrong("the bare worker did not start".to_owned()))?;
    tokio::time::sleep(first.saturating_sub(clock::since_epoch() + Duration::from_millis(50))).await;
    let (cpu, since) = (redis_cpu(bare).await?, clock::now());
    let pump = thread::spawn(pump);
    let ended = tokio::task::spawn_blocking(move || (pump.join(), worker.join())).await;
    let (pumped, worked) = ended.map_err(|error| BenchError::Wrong(error.to_string()))?;
    let panicked = |_| BenchError::Wrong("the bare loop panicked".to_owned());
    pumped.map_err(panicked)??;
    let waits: Vec<(u64, u64)> = worked.map_err(panicked)??;
    let redis_percent = 100.0 * (redis_cpu(bare).await? - cpu) / (clock::now() - since).as_secs_f64();
    let (mut ready, mut worker): (Vec<u64>, Vec<u64>) = waits.into_iter().unzip();
    ready.sort_unstable();
    worker.sort_unstable();
    Ok(BareWaits { ready, worker, redis_percent })
}

fn add(batch: usize, dues_ms: &[u64]) -> Request {
    let mut words = vec![b"ZADD".to_vec(), DUE.into()];
    for (n, due) in dues_ms.iter().enumerate() {
        words.extend([due.to_string().into_bytes(), format!("{due} {batch} {n}").into_bytes()]);
    }
    Request::new(&words)
}

fn pump(address: &str, sha: &[u8], dues_ms: &[u64]) -> io::Result<()> {
    let mut wire = Wire::connect(address)?;
    let keys: [&[u8]; 6] = [b"EVALSHA", sha, b"3", DUE.as_bytes(), READY.as_bytes(), WAKE.as_bytes()];
    let call = Request::new(&keys);
    for &due in dues_ms {
        thread::sleep((Duration::from_millis(due) - AIM).saturating_sub(clock::since_epoch()));
        while wire.call(&call)? == Answer::Number(0) && clock::since_epoch() <= Duration::from_millis(due + 1)
        {
        }
    }
    Ok(())
}

/// Waits for a wake-up and takes everything ready. Returns ready − due and in hand − due of each message.
fn work(address: &str, count: usize, ready: oneshot::Sender<()>) -> io::Result<Vec<(u64, u64)>> {
    let (mut ears, mut hands) = (Wire::connect(address)?, Wire::connect(address)?);
    ears.call(&Request::new(&[b"SUBSCRIBE", WAKE.as_bytes()]))?;
    let take = Request::new(&[b"LPOP", READY.as_bytes(), b"500"]);
    let mut waits = Vec::with_capacity(count);
    // The receiver is dropped only after the measurement ended.
    let _ = ready.send(());
    while waits.len() < count {
        ears.answer()?;
        // An empty list ends the batch.
        while let Answer::List(messages) = hands.call(&take)?
            && !messages.is_empty()
        {
            let now = clock::micros(clock::since_epoch());
            waits.extend(messages.iter().filter_map(|message| wait(message, now)));
        }
    }
    Ok(waits)
}

/// Ready − due and now − due of a message, given its due time, batch, number and ready time.
fn wait(message: &Answer, now_us: u64) -> Option<(u64, u64)> {
    let Answer::Text(text) = message else { return None };
    let text = std::str::from_utf8(text).ok()?;
    let due_us = text.split(' ').next()?.parse::<u64>().ok()? * 1000;
    let ready_us = text.rsplit(' ').next()?.parse::<u64>().ok()?;
    Some((ready_us.checked_sub(due_us)?, now_us.saturating_sub(due_us)))
}
