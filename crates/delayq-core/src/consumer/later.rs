//! Acks that nobody waits for: gathered by shard until each call of the script has several.
//!
//! A call costs Redis as much for one receipt as for a dozen. So they wait for others of their shard; and few shards go
//! together, so that whoever wants something else of Redis does not wait for all of them.

use crate::{Client, Receipt, ShardId};
use std::{collections::BTreeMap, time::Duration};
use tokio::{sync::mpsc, time::Instant, time::sleep_until};

/// How long a receipt waits for others; a message whose consumer dies within it comes again.
const LINGER: Duration = Duration::from_millis(20);
/// Shards in one call: some 0.15 ms of Redis's time.
const SHARDS_A_CALL: usize = 4;
/// Receipts of one shard that go without waiting for more.
const MANY: usize = 100;
/// Receipts that are taken in between two looks at what is due.
const TAKEN_AT_ONCE: usize = 256;

/// What waits to be acked.
#[derive(Debug)]
pub(super) struct Later {
    client: Client,
    waiting: Waiting,
}

/// Receipts by shard, and since when the first of each waits. Pure.
#[derive(Debug, Default)]
struct Waiting(BTreeMap<ShardId, (Instant, Vec<Receipt>)>);

// === impl Later ===

impl Later {
    pub(super) fn new(client: Client) -> Self {
        Self { client, waiting: Waiting::default() }
    }

    /// Acks what comes in, until nobody can add to it any more and all is told.
    pub(super) async fn run(mut self, mut receipts: mpsc::UnboundedReceiver<Receipt>) {
        let mut taken = Vec::new();
        loop {
            let due = self.waiting.due();
            tokio::select! {
                count = receipts.recv_many(&mut taken, TAKEN_AT_ONCE) => if count == 0 { break },
                () = sleep_until(due.unwrap_or_else(now)), if due.is_some() => {}
            }
            taken.drain(..).for_each(|receipt| self.waiting.add(receipt, now()));
            if self.waiting.due().is_some_and(|due| due <= now()) {
                self.ack(now()).await;
            }
        }
        // Where Redis cannot be told of some, it is not asked to wait for the rest.
        while !self.waiting.0.is_empty() && self.ack(now() + LINGER).await {}
    }

    /// Acks what is due then; false where Redis could not be told.
    async fn ack(&mut self, then: Instant) -> bool {
        let receipts = self.waiting.take(then);
        let answers = self.client.ack(&receipts).await;
        let Some(Err(error)) = answers.iter().find(|answer| answer.is_err()) else { return true };
        tracing::warn!(%error, "acks did not arrive: the messages come again when their leases run out");
        false
    }
}

// === impl Waiting ===

impl Waiting {
    fn add(&mut self, receipt: Receipt, now: Instant) {
        let (_, receipts) = self.0.entry(receipt.shard).or_insert_with(|| (now, Vec::new()));
        receipts.push(receipt);
    }

    /// When a call is due; none: nothing waits.
    fn due(&self) -> Option<Instant> {
        let due = |(since, receipts): &(Instant, Vec<Receipt>)| {
            if receipts.len() >= MANY { *since } else { *since + LINGER }
        };
        self.0.values().map(due).min()
    }

    /// What goes together in one call: of the shards that wait longest, and for half as long as they may at least. Of
    /// none more than a call takes.
    fn take(&mut self, now: Instant) -> Vec<Receipt> {
        let ripe = |(since, receipts): &(Instant, Vec<Receipt>)| {
            receipts.len() >= MANY || *since + LINGER / 2 <= now
        };
        let mut shards: Vec<(Instant, ShardId)> = self
            .0
            .iter()
            .filter(|(_, waiting)| ripe(waiting))
            .map(|(&shard, (since, _))| (*since, shard))
            .collect();
        shards.sort_unstable();
        let mut taken = Vec::new();
        for (since, shard) in shards.into_iter().take(SHARDS_A_CALL) {
            let (_, mut receipts) = self.0.remove(&shard).unwrap_or_else(|| (since, Vec::new()));
            let rest = receipts.split_off(receipts.len().min(crate::MAX_IDS_A_CALL));
            taken.append(&mut receipts);
            if !rest.is_empty() {
                self.0.insert(shard, (since, rest));
            }
        }
        taken
    }
}

#[allow(clippy::disallowed_methods, reason = "tokio's clock, which tests can pause")]
fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn receipt(shard: u16, n: u8) -> Receipt {
        Receipt { shard: ShardId::new(shard), bytes: vec![n] }
    }

    fn shards(receipts: &[Receipt]) -> Vec<u16> {
        receipts.iter().map(|receipt| receipt.shard.get()).collect()
    }

    #[test]
    fn receipts_wait_for_others_of_their_shard_and_few_shards_go_together() {
        let start = now();
        let mut waiting = Waiting::default();
        assert_eq!(waiting.due(), None);
        for shard in 0..6 {
            waiting.add(receipt(shard, 0), start + u32::from(shard) * Duration::from_millis(1));
        }
        waiting.add(receipt(0, 1), start + LINGER);
        assert_eq!(waiting.due(), Some(start + LINGER));
        assert_eq!(shards(&waiting.take(start + LINGER)), [0, 0, 1, 2, 3]);
        assert_eq!(waiting.due(), Some(start + Duration::from_millis(4) + LINGER));
    }

    #[test]
    fn who_has_just_come_waits_on_when_others_go() {
        let start = now();
        let mut waiting = Waiting::default();
        waiting.add(receipt(1, 0), start);
        waiting.add(receipt(2, 0), start + LINGER - Duration::from_millis(1));
        assert_eq!(shards(&waiting.take(start + LINGER)), [1]);
        assert_eq!(shards(&waiting.take(start + 2 * LINGER)), [2]);
    }

    #[test]
    fn many_of_one_shard_go_at_once_as_many_as_a_call_takes() {
        let start = now();
        let mut waiting = Waiting::default();
        (0..=crate::MAX_IDS_A_CALL).for_each(|_| waiting.add(receipt(7, 0), start));
        assert_eq!(waiting.due(), Some(start));
        assert_eq!(waiting.take(start).len(), crate::MAX_IDS_A_CALL);
        assert_eq!((waiting.due(), waiting.take(start).len()), (Some(start + LINGER), 0));
        assert_eq!(waiting.take(start + LINGER).len(), 1);
    }
}
