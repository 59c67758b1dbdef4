//! Settles messages by receipt, for holders and consumers.

use crate::calls::{Batch, Calls, scatter};
use crate::error::Error;
use delayq_core::call::Call;
use delayq_core::script::Verb;
use delayq_core::shard::ShardId;
use delayq_core::verbs::reserve::Receipt;
use delayq_core::verbs::settle::{self, Release, Settled};
use std::time::Duration;

/// Maximum bytes of a receipt, a delay and a word, rounded up.
const RECEIPT_BYTES: usize = 256;

#[derive(Clone, Copy)]
pub(crate) enum Settlement<'s> {
    Ack(&'s Receipt),
    Extend(&'s Receipt, Option<Duration>),
    Release(&'s Release),
    Bury(&'s Receipt, &'s str),
}

// === impl Settlement ===

impl<'s> Settlement<'s> {
    fn receipt(self) -> &'s Receipt {
        match self {
            Self::Ack(receipt) | Self::Extend(receipt, _) | Self::Bury(receipt, _) => receipt,
            Self::Release(release) => &release.receipt,
        }
    }

    fn verb(self) -> Verb {
        match self {
            Self::Ack(_) => Verb::Ack,
            Self::Extend(..) => Verb::Extend,
            Self::Release(_) => Verb::Release,
            Self::Bury(..) => Verb::Bury,
        }
    }

    pub(crate) fn bytes(self) -> usize {
        RECEIPT_BYTES
            + match self {
                Self::Ack(_) | Self::Extend(..) => 0,
                Self::Release(release) => release.reason.len(),
                Self::Bury(_, reason) => reason.len(),
            }
    }

    fn release(self) -> Option<&'s Release> {
        if let Self::Release(release) = self { Some(release) } else { None }
    }

    fn burial(self) -> Option<(&'s Receipt, &'s str)> {
        if let Self::Bury(receipt, reason) = self { Some((receipt, reason)) } else { None }
    }
}

/// In as few round trips as the limits allow. Returns one answer for each message, in order.
pub(crate) async fn settle_all(calls: &Calls, all: &[Settlement<'_>]) -> Vec<Result<Settled, Error>> {
    let keyed = all.iter().map(|one| ((one.verb(), one.receipt().shard), one.bytes())).collect();
    let request = |batch: &Batch<(Verb, ShardId)>| request(batch.key, &batch.items, all);
    let read = |batch: &Batch<(Verb, ShardId)>, reply| settle::read(batch.key.0, reply, batch.items.len());
    scatter(calls, keyed, request, read).await
}

fn request((verb, shard): (Verb, ShardId), items: &[usize], all: &[Settlement<'_>]) -> Call {
    let some = || items.iter().map(|&i| all[i]);
    match (verb, some().next()) {
        (Verb::Release, _) => settle::release(shard, some().filter_map(Settlement::release)),
        (Verb::Bury, _) => settle::bury(shard, some().filter_map(Settlement::burial)),
        (_, Some(Settlement::Extend(_, lease))) => {
            settle::extend(shard, some().map(Settlement::receipt), lease)
        }
        _ => settle::ack(shard, some().map(Settlement::receipt)),
    }
}
