//! Settles messages by receipt, for holders and consumers.

use crate::calls::{Batch, Calls, scatter};
use crate::client::Client;
use crate::clock;
use crate::error::Error;
use crate::options::PAYLOAD;
use delayq_core::call::Call;
use delayq_core::id::Topic;
use delayq_core::leased::{Leased, NextPut};
use delayq_core::message::{Message, check};
use delayq_core::script::Verb;
use delayq_core::shard::ShardId;
use delayq_core::verbs::put;
use delayq_core::verbs::reserve::Receipt;
use delayq_core::verbs::settle::{self, Release, Settled};
use std::time::Duration;

/// Maximum bytes of a receipt, a delay and a word, rounded up.
const RECEIPT_BYTES: usize = 256;

#[derive(Clone, Copy)]
pub(crate) enum Settlement<'s> {
    Ack(&'s Receipt),
    AckAndPut(&'s NextPut),
    Extend(&'s Receipt, Option<Duration>),
    Release(&'s Release),
    Bury(&'s Receipt, &'s str),
}

// === impl Settlement ===

impl<'s> Settlement<'s> {
    fn receipt(self) -> &'s Receipt {
        match self {
            Self::Ack(receipt) | Self::Extend(receipt, _) | Self::Bury(receipt, _) => receipt,
            Self::AckAndPut(next) => &next.receipt,
            Self::Release(release) => &release.receipt,
        }
    }

    fn verb(self) -> Verb {
        match self {
            Self::Ack(_) => Verb::Ack,
            Self::AckAndPut(_) => Verb::Put,
            Self::Extend(..) => Verb::Extend,
            Self::Release(_) => Verb::Release,
            Self::Bury(..) => Verb::Bury,
        }
    }

    pub(crate) fn bytes(self) -> usize {
        RECEIPT_BYTES
            + match self {
                Self::Ack(_) | Self::Extend(..) => 0,
                // The receipt is sent in hex.
                Self::AckAndPut(next) => RECEIPT_BYTES + next.bytes(),
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

    fn next(self) -> Option<&'s NextPut> {
        if let Self::AckAndPut(next) = self { Some(next) } else { None }
    }

    fn key(self) -> SettleKey {
        (self.verb(), self.receipt().shard, self.next().map(|next| next.topic.clone()))
    }
}

/// The common properties of settlements that share a call: script, shard, and topic of the next messages.
type SettleKey = (Verb, ShardId, Option<Topic>);

/// The put of the next message of `leased`, checked and encoded.
pub(crate) fn next_put(client: &Client, leased: &Leased, next: Message) -> Result<NextPut, Error> {
    check(&next, PAYLOAD.check(client.max_payload_bytes)?)?;
    let next = leased.next(next, clock::now())?;
    Ok(leased.put(&next, client.payloads.stored(&next).encode()))
}

/// In as few round trips as the limits allow. Returns one answer for each message, in order.
pub(crate) async fn settle_all(calls: &Calls, all: &[Settlement<'_>]) -> Vec<Result<Settled, Error>> {
    let keyed = all.iter().map(|one| (one.key(), one.bytes())).collect();
    let request = |batch: &Batch<SettleKey>| {
        let mut call = request(&batch.key, &batch.items, all);
        if let Some(topic) = &batch.key.2 {
            call.waits = calls.waits(topic);
        }
        call
    };
    let read = |batch: &Batch<SettleKey>, reply| match batch.key.0 {
        Verb::Put => put::read_acks(reply, batch.items.len()),
        verb => settle::read(verb, reply, batch.items.len()),
    };
    scatter(calls, keyed, request, read).await
}

fn request((verb, shard, topic): &SettleKey, items: &[usize], all: &[Settlement<'_>]) -> Call {
    let some = || items.iter().map(|&i| all[i]);
    match (verb, topic, some().next()) {
        (_, Some(topic), _) => put::by_acks(*shard, topic, some().filter_map(Settlement::next)),
        (Verb::Release, ..) => settle::release(*shard, some().filter_map(Settlement::release)),
        (Verb::Bury, ..) => settle::bury(*shard, some().filter_map(Settlement::burial)),
        (.., Some(Settlement::Extend(_, lease))) => {
            settle::extend(*shard, some().map(Settlement::receipt), lease)
        }
        _ => settle::ack(*shard, some().map(Settlement::receipt)),
    }
}
