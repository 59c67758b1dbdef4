//! The records that were handed out and are not acked. The server delivers one again that it hears nothing of for a while,
//! so it is told of those that take long.

use async_nats::{Client, Subject};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::task::AbortHandle;
use tokio::time::{MissedTickBehavior, interval};

/// The server is told of them until this is dropped.
pub(super) struct Outstanding {
    records: Arc<Mutex<Records>>,
    telling: AbortHandle,
}

#[derive(Default)]
struct Records {
    /// By their sequence numbers in the stream.
    out: BTreeMap<u64, Out>,
    bytes: usize,
    /// The last that were acked: one of them that comes again, because the server heard of it too late, is no new record.
    acked: BTreeSet<u64>,
}

struct Out {
    /// Where it is acked.
    reply: Subject,
    since: Instant,
    bytes: usize,
}

/// What a record that arrives is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Known {
    New,
    /// It is here already.
    Here,
    /// It was acked already.
    Acked,
}

/// Maximum number of records that are remembered after their ack.
const MOST_ACKED: usize = 1 << 16;

// === impl Outstanding ===

impl Outstanding {
    /// `patience`: how long the server waits for a sign of a record.
    pub(super) fn start(client: &Client, patience: Duration) -> Self {
        let records = Arc::<Mutex<Records>>::default();
        let telling = tokio::spawn(tell(client.clone(), Arc::clone(&records), patience / 3)).abort_handle();
        Self { records, telling }
    }

    /// Notes a record that arrived.
    pub(super) fn add(&self, sequence: u64, reply: Subject, bytes: usize) -> Known {
        lock(&self.records).add(sequence, Out { reply, since: Instant::now(), bytes })
    }

    /// Where a record is acked; it is no longer told of.
    pub(super) fn take(&self, sequence: u64) -> Option<Subject> {
        lock(&self.records).take(sequence)
    }

    /// How many there are, and their bytes.
    pub(super) fn held(&self) -> (usize, usize) {
        let records = lock(&self.records);
        (records.out.len(), records.bytes)
    }
}

// === impl Records ===

impl Records {
    fn add(&mut self, sequence: u64, out: Out) -> Known {
        if self.acked.contains(&sequence) {
            return Known::Acked;
        }
        self.bytes += out.bytes;
        match self.out.insert(sequence, out) {
            None => Known::New,
            Some(before) => {
                self.bytes -= before.bytes;
                Known::Here
            }
        }
    }

    fn take(&mut self, sequence: u64) -> Option<Subject> {
        let out = self.out.remove(&sequence)?;
        self.bytes -= out.bytes;
        self.acked.insert(sequence);
        if self.acked.len() > MOST_ACKED {
            self.acked.pop_first();
        }
        Some(out.reply)
    }
}

impl Drop for Outstanding {
    fn drop(&mut self) {
        self.telling.abort();
    }
}

async fn tell(client: Client, records: Arc<Mutex<Records>>, every: Duration) {
    let mut ticks = interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let old: Vec<Subject> = lock(&records)
            .out
            .values()
            .filter(|out| out.since.elapsed() >= every)
            .map(|out| out.reply.clone())
            .collect();
        for reply in old {
            // Where this fails the connection is gone, which its reader reports.
            let _ = client.publish(reply, "+WPI".into()).await;
        }
    }
}

fn lock(records: &Mutex<Records>) -> MutexGuard<'_, Records> {
    // Nothing in it can panic halfway.
    records.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_that_comes_again_is_known_while_it_is_here_and_after_its_ack() {
        let mut records = Records::default();
        let mut add = |sequence| {
            records
                .add(sequence, Out { reply: format!("r{sequence}").into(), since: Instant::now(), bytes: 10 })
        };
        assert_eq!([add(5), add(6), add(5)], [Known::New, Known::New, Known::Here]);
        assert_eq!(records.bytes, 20);
        assert_eq!(records.take(5).as_deref(), Some("r5"));
        assert_eq!((records.take(5), records.bytes), (None, 10));
        let again = Out { reply: "again".into(), since: Instant::now(), bytes: 10 };
        assert_eq!(records.add(5, again), Known::Acked);
    }
}
