//! The limit of lateness with delayq's own scripts: a bare loop pumps each shard when its pump before said so, and a bare
//! worker reserves from the shards that notifications name, and acks in full calls. Neither watches or repeats anything.

use crate::bare::{Answer, Request};
use crate::bare_loop::{AIM, BareWaits, deliver};
use crate::bench::Prepared;
use crate::clock;
use crate::error::BenchError;
use crate::wire::Wire;
use delayq::UnixMillis;
use delayq::protocol::{Channel, Keys, ShardId, Verb};
use std::time::Duration;
use std::{io, thread};
use tokio::sync::oneshot;

/// How many receipts of a shard wait before they are acked together.
const RECEIPTS: usize = 32;

/// What is sent for a shard.
#[derive(Clone)]
struct Calls {
    /// Where the shard publishes that a ready queue is no longer empty.
    channel: Vec<u8>,
    pump: Request,
    reserve: Request,
    /// The words of an ack before the receipts.
    ack: Vec<Vec<u8>>,
}

/// Delivers so many messages of a filled deployment, the first of which is due at `from`.
pub(crate) async fn run(
    prepared: &mut Prepared,
    address: &str,
    count: usize,
    from: UnixMillis,
) -> Result<BareWaits, BenchError> {
    let calls: Vec<Calls> =
        prepared.client.shards().shards().map(|shard| Calls::new(prepared, shard)).collect();
    let work = {
        let (address, calls) = (address.to_owned(), calls.clone());
        move |ready| work(&address, &calls, count, ready)
    };
    let pump = {
        let address = address.to_owned();
        move || pump(&address, &calls, count)
    };
    deliver(&mut prepared.bare, Duration::from_millis(from.get()), pump, work).await
}

/// The loop: pumps the shards whose time has come, in one pipeline, until all messages are ready.
fn pump(address: &str, calls: &[Calls], count: usize) -> io::Result<()> {
    let mut wire = Wire::connect(address)?;
    let (mut next_ms, mut moved) = (vec![0; calls.len()], 0);
    while moved < count {
        let first = next_ms.iter().copied().min().unwrap_or(u64::MAX);
        if first == u64::MAX {
            return Err(io::Error::other(format!("only {moved} of {count} messages were ever due")));
        }
        thread::sleep(Duration::from_millis(first).saturating_sub(AIM).saturating_sub(clock::since_epoch()));
        let due: Vec<usize> = (0..calls.len()).filter(|&n| next_ms[n] == first).collect();
        wire.send(due.iter().map(|&n| &calls[n].pump))?;
        for n in due {
            // Where it came too early, the same time again.
            let Answer::List(report) = wire.answer()? else { continue };
            next_ms[n] = number(&report[2]).unwrap_or(u64::MAX);
            moved += number(&report[3]).unwrap_or(0) as usize;
        }
    }
    Ok(())
}

/// The worker: waits for notifications, reserves from the shards that all those name that have arrived, and with the next
/// reserve acks what it got of a shard, once that is enough. Ready − due and in hand − due of each message.
fn work(
    address: &str,
    calls: &[Calls],
    count: usize,
    ready: oneshot::Sender<()>,
) -> io::Result<Vec<(u64, u64)>> {
    let (mut ears, mut hands) = (Wire::connect(address)?, Wire::connect(address)?);
    for shard in calls {
        ears.call(&Request::new(&[b"SSUBSCRIBE", &shard.channel[..]]))?;
    }
    let (mut waits, mut receipts) = (Vec::with_capacity(count), vec![Vec::new(); calls.len()]);
    // The receiver has gone only where the measurement has ended.
    let _ = ready.send(());
    while waits.len() < count {
        let mut named = vec![ears.answer()?];
        while let Some(notification) = ears.arrived()? {
            named.push(notification);
        }
        let is_named = |&n: &usize| named.iter().any(|notification| calls[n].is_named(notification));
        let named: Vec<usize> = (0..calls.len()).filter(is_named).collect();
        let full = calls.iter().zip(&mut receipts).filter(|(_, receipts)| receipts.len() >= RECEIPTS);
        let acks: Vec<Request> = full.map(|(shard, receipts)| shard.ack(receipts)).collect();
        hands.send(named.iter().map(|&n| &calls[n].reserve).chain(&acks))?;
        for n in named {
            let reply = hands.answer()?;
            let now = clock::micros(clock::since_epoch());
            for message in messages(&reply) {
                waits.extend(wait(message, now));
                receipts[n].push(message[1].clone());
            }
        }
        for _ in acks {
            hands.answer()?;
        }
    }
    Ok(waits)
}

/// The messages that a reserve answered: ready time, receipt and envelope of each.
fn messages(reply: &Answer) -> impl Iterator<Item = &[Answer]> {
    // Before them: the time, five counts, and the place, the end of the leases and the count of the one topic.
    let words = if let Answer::List(words) = reply { words.get(9..) } else { None };
    words.unwrap_or_default().chunks_exact(3)
}

/// Ready − due and now − due of a message.
fn wait(message: &[Answer], now_us: u64) -> Option<(u64, u64)> {
    let Answer::Text(envelope) = &message[2] else { return None };
    let due_us = u64::from_be_bytes(envelope.get(8..16)?.try_into().ok()?) * 1000;
    Some((number(&message[0])?.checked_sub(due_us)?, now_us.saturating_sub(due_us)))
}

fn number(answer: &Answer) -> Option<u64> {
    match answer {
        Answer::Number(number) => u64::try_from(*number).ok(),
        Answer::Text(text) => std::str::from_utf8(text).ok()?.parse().ok(),
        _ => None,
    }
}

// === impl Calls ===

impl Calls {
    fn new(prepared: &Prepared, shard: ShardId) -> Self {
        let call = |verb, words: &[&str]| {
            let mut call = prepared.call(verb, shard);
            call.extend(words.iter().map(|word| word.as_bytes().to_vec()));
            Request::new(&call)
        };
        let keys = Keys::new(prepared.client.namespace().clone());
        Self {
            channel: keys.channel(shard, Channel::Ready).into_bytes(),
            pump: call(Verb::Pump, &["1", "500"]),
            reserve: call(Verb::Reserve, &["500", "0", "", prepared.messages.topic.as_str()]),
            ack: prepared.call(Verb::Ack, shard),
        }
    }

    /// Acks what these receipts are of, which are gone then.
    fn ack(&self, receipts: &mut Vec<Answer>) -> Request {
        let mut call = self.ack.clone();
        call.extend(receipts.drain(..).map(|receipt| match receipt {
            Answer::Text(receipt) => receipt,
            other => unreachable!("a receipt is a text, and not {other:?}"),
        }));
        Request::new(&call)
    }

    fn is_named(&self, notification: &Answer) -> bool {
        matches!(notification, Answer::List(words) if words.get(1) == Some(&Answer::Text(self.channel.clone())))
    }
}
