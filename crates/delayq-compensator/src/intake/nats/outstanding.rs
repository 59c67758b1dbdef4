//! The records that were handed out and are not acked. The server delivers a record again after a while without a sign of
//! life, so signs are sent for records that take long.

use async_nats::{Client, Subject};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::task::AbortHandle;
use tokio::time::{MissedTickBehavior, interval};

/// Signs are sent until the value is dropped.
pub(super) struct Outstanding {
    records: Arc<Mutex<Records>>,
    telling: AbortHandle,
}

#[derive(Default)]
struct Records {
    /// By sequence number in the stream.
    out: BTreeMap<u64, Out>,
    bytes: usize,
    /// The last that were acked: a repeated delivery, caused by a late ack, is no new record.
    acked: BTreeSet<u64>,
}

struct Out {
    /// The subject for the ack.
    reply: Subject,
    since: Instant,
    bytes: usize,
}

/// The kind of an arriving record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    New,
    /// The record is here already.
    Here,
    /// The record was acked already.
    Acked,
}

/// Maximum number of acked records that are remembered.
const MOST_ACKED: usize = 1 << 16;

// === impl Outstanding ===

impl Outstanding {
    /// `patience`: the server's wait for a sign of a record.
    pub(super) fn start(client: &Client, patience: Duration) -> Self {
        let records = Arc::<Mutex<Records>>::default();
        let telling = tokio::spawn(tell(client.clone(), Arc::clone(&records), patience / 3)).abort_handle();
        Self { records, telling }
    }

    /// Notes a record that arrived.
    pub(super) fn add(&self, sequence: u64, reply: Subject, bytes: usize) -> Arrival {
        lock(&self.records).add(sequence, Out { reply, since: Instant::now(), bytes })
    }

    /// The subject for the ack of a record, for which no more signs are sent.
    pub(super) fn take(&self, sequence: u64) -> Option<Subject> {
        lock(&self.records).take(sequence)
    }

    /// Number and bytes of the records.
    pub(super) fn held(&self) -> (usize, usize) {
        let records = lock(&self.records);
        (records.out.len(), records.bytes)
    }
}

// === impl Records ===

impl Records {
    fn add(&mut self, sequence: u64, out: Out) -> Arrival {
        if self.acked.contains(&sequence) {
            return Arrival::Acked;
        }
        self.bytes += out.bytes;
        match self.out.insert(sequence, out) {
            None => Arrival::New,
            Some(before) => {
                self.bytes -= before.bytes;
                Arrival::Here
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
            // A failure means a lost connection, which the reader reports.
            let _ = client.publish(reply, "+WPI".into()).await;
        }
    }
}

fn lock(records: &Mutex<Records>) -> MutexGuard<'_, Records> {
    // No change can panic halfway.
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
        assert_eq!([add(5), add(6), add(5)], [Arrival::New, Arrival::New, Arrival::Here]);
        assert_eq!(records.bytes, 20);
        assert_eq!(records.take(5).as_deref(), Some("r5"));
        assert_eq!((records.take(5), records.bytes), (None, 10));
        let again = Out { reply: "again".into(), since: Instant::now(), bytes: 10 };
        assert_eq!(records.add(5, again), Arrival::Acked);
    }
}
