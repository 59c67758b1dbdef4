//! Acks without a waiting caller: gathered by shard until each call of the script has several acks.
//!
//! A call costs Redis as much for one receipt as for a dozen, so an ack waits for other acks of the same shard. Few
//! acks of few shards go together, so that other calls to Redis do not wait for a large batch. The acks go after the
//! next message was processed, rather than at any time: the messages that were due at that moment are finished then,
//! and Redis has least to do.
//!
//! Acks that could not reach Redis go to the queue of other settlements, and are repeated there.

use super::leases::Leases;
use super::settlement::{OpenSettlement, Settle};
use crate::clock;
use crate::holder::Holder;
use delayq_core::shard::ShardId;
use delayq_core::verbs::reserve::Receipt;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};
use tokio_util::task::TaskTracker;

/// Time that a receipt waits for other receipts of the same shard.
const GATHER: Duration = Duration::from_millis(40);
/// Time to wait for a next message; if the consumer dies before, the message returns.
const LINGER: Duration = Duration::from_millis(50);
/// Maximum shards and receipts in one round trip: about 0.15 ms of Redis's time.
const MOST_SHARDS: usize = 4;
const MOST_RECEIPTS: usize = 32;
/// The minimum part of all waiting receipts in one round trip, so that receipts leave as fast as new receipts arrive.
const PART_OF_ALL: usize = 8;

#[derive(Clone, Debug)]
pub(super) struct Later(mpsc::UnboundedSender<Given>);

#[derive(Debug)]
struct Acking {
    holder: Holder,
    leases: Arc<Leases>,
    again: mpsc::UnboundedSender<[OpenSettlement; 1]>,
    waiting: WaitingReceipts,
    given: mpsc::UnboundedReceiver<Given>,
}

type Given = (Instant, Receipt);

/// Waiting receipts by shard, with the arrival time of the first.
#[derive(Debug, Default)]
struct WaitingReceipts(BTreeMap<ShardId, (Instant, Vec<Receipt>)>);

// === impl Later ===

impl Later {
    /// The task ends when all senders are dropped and all acks are sent.
    pub(super) fn start(
        holder: Holder,
        leases: Arc<Leases>,
        again: mpsc::UnboundedSender<[OpenSettlement; 1]>,
        tasks: &TaskTracker,
    ) -> Self {
        let (give, given) = mpsc::unbounded_channel();
        tasks.spawn(Acking { holder, leases, again, waiting: WaitingReceipts::default(), given }.run());
        Self(give)
    }

    pub(super) fn ack(&self, receipt: Receipt) {
        // The task outlives all senders.
        let _ = self.0.send((clock::instant(), receipt));
    }
}

// === impl Acking ===

impl Acking {
    async fn run(mut self) {
        while self.gather().await {
            self.ack(clock::instant()).await;
        }
        // If some acks cannot reach Redis, the remaining acks do not wait for Redis either.
        while !self.waiting.0.is_empty() && self.ack(clock::instant() + LINGER).await {}
        for (_, receipts) in std::mem::take(&mut self.waiting.0).into_values() {
            for receipt in receipts {
                self.tell_again(OpenSettlement::unattended(Settle::Ack(receipt)));
            }
        }
    }

    /// False once all senders are dropped.
    async fn gather(&mut self) -> bool {
        if let Some(oldest) = self.waiting.oldest() {
            // Sleeps without receiving, so that senders need not wake this task meanwhile.
            sleep_until(oldest + GATHER).await;
            self.take_in();
        }
        let last = self.waiting.oldest().map(|oldest| oldest + LINGER);
        let is_open = tokio::select! {
            given = self.given.recv() => given.map(|given| self.waiting.add(given)).is_some(),
            () = sleep_until(last.unwrap_or_else(clock::instant)), if last.is_some() => true,
        };
        // After a busy moment the first receipt has waited long enough, and goes with all other receipts that have.
        self.take_in();
        is_open
    }

    fn take_in(&mut self) {
        while let Ok(given) = self.given.try_recv() {
            self.waiting.add(given);
        }
    }

    /// Acks receipts that will have waited long enough at `then`; false if Redis could not be reached.
    async fn ack(&mut self, then: Instant) -> bool {
        let receipts = self.waiting.take(then);
        let (answers, mut told) = (self.holder.ack(&receipts).await, true);
        for (receipt, answer) in receipts.into_iter().zip(answers) {
            match answer {
                Ok(_) => self.leases.end(&receipt),
                Err(error) => {
                    told = false;
                    self.tell_again(OpenSettlement::unattended(Settle::Ack(receipt)).after(&error));
                }
            }
        }
        told
    }

    fn tell_again(&self, open: OpenSettlement) {
        // The task that reads the queue ends after this task.
        let _ = self.again.send([open]);
    }
}

// === impl WaitingReceipts ===

impl WaitingReceipts {
    fn add(&mut self, (since, receipt): Given) {
        let (_, receipts) = self.0.entry(receipt.shard).or_insert_with(|| (since, Vec::new()));
        receipts.push(receipt);
    }

    fn oldest(&self) -> Option<Instant> {
        self.0.values().map(|(since, _)| *since).min()
    }

    /// Takes from the shards that have waited longest, and long enough; at most the limit of a call for each shard.
    fn take(&mut self, now: Instant) -> Vec<Receipt> {
        let all: usize = self.0.values().map(|(_, receipts)| receipts.len()).sum();
        let most = MOST_RECEIPTS.max(all / PART_OF_ALL);
        let mut shards: Vec<(Instant, ShardId)> = self
            .0
            .iter()
            .filter(|(_, (since, _))| *since + GATHER <= now)
            .map(|(&shard, (since, _))| (*since, shard))
            .collect();
        shards.sort_unstable();
        let mut taken = Vec::new();
        for (since, shard) in shards.into_iter().take(MOST_SHARDS) {
            let (_, mut receipts) = self.0.remove(&shard).unwrap_or_else(|| (since, Vec::new()));
            let count = receipts.len().min(most - taken.len()).min(delayq_core::limits::MAX_IDS_A_CALL);
            let rest = receipts.split_off(count);
            taken.append(&mut receipts);
            if !rest.is_empty() {
                self.0.insert(shard, (since, rest));
            }
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn receipt(shard: u16, n: u8) -> Receipt {
        Receipt::new(ShardId::new(shard), vec![n])
    }

    fn shards(receipts: &[Receipt]) -> Vec<u16> {
        receipts.iter().map(|receipt| receipt.shard.get()).collect()
    }

    #[test]
    fn receipts_wait_for_others_of_their_shard_and_few_shards_go_together() {
        let start = clock::instant();
        let mut waiting = WaitingReceipts::default();
        assert_eq!(waiting.oldest(), None);
        for shard in 0..6 {
            waiting.add((start + u32::from(shard) * Duration::from_millis(1), receipt(shard, 0)));
        }
        waiting.add((start + GATHER, receipt(0, 1)));
        assert_eq!(waiting.oldest(), Some(start));
        assert_eq!(shards(&waiting.take(start + LINGER)), [0, 0, 1, 2, 3]);
        assert_eq!(waiting.oldest(), Some(start + Duration::from_millis(4)));
        assert_eq!(shards(&waiting.take(start + LINGER)), [4, 5]);
    }

    #[test]
    fn who_has_just_come_waits_on_when_others_go() {
        let start = clock::instant();
        let mut waiting = WaitingReceipts::default();
        waiting.add((start, receipt(1, 0)));
        waiting.add((start + Duration::from_millis(1), receipt(2, 0)));
        assert_eq!(shards(&waiting.take(start + GATHER)), [1]);
        assert_eq!(shards(&waiting.take(start + GATHER)), []);
        assert_eq!(waiting.oldest(), Some(start + Duration::from_millis(1)));
    }

    #[test]
    fn few_receipts_go_together_and_the_rest_has_waited_as_long() {
        let start = clock::instant();
        let mut waiting = WaitingReceipts::default();
        (0..=MOST_RECEIPTS).for_each(|_| waiting.add((start, receipt(7, 0))));
        waiting.add((start + Duration::from_millis(1), receipt(8, 0)));
        assert_eq!(shards(&waiting.take(start + LINGER)), [7; MOST_RECEIPTS]);
        assert_eq!(waiting.oldest(), Some(start));
        assert_eq!(shards(&waiting.take(start + LINGER)), [7, 8]);
        assert_eq!(waiting.oldest(), None);
    }

    #[test]
    fn of_many_that_wait_a_part_goes_but_of_a_shard_no_more_than_a_call_takes() {
        const MOST: usize = delayq_core::limits::MAX_IDS_A_CALL;
        let start = clock::instant();
        let mut waiting = WaitingReceipts::default();
        (0..PART_OF_ALL * 100).for_each(|_| waiting.add((start, receipt(7, 0))));
        assert_eq!(shards(&waiting.take(start + GATHER)), [7; 100]);
        (0..PART_OF_ALL * MOST).for_each(|_| waiting.add((start, receipt(7, 0))));
        waiting.add((start, receipt(8, 0)));
        assert_eq!(shards(&waiting.take(start + GATHER)), [&[7; MOST][..], &[8]].concat());
    }
}
