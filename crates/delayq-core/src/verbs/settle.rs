//! `ack`, `extend`, `release`, `bury`: what the holder of a lease does.

use crate::{
    Client, Error, Receipt, ShardId, UnixMillis,
    link::Call,
    reply::{Reply, Words},
    script::Verb,
};
use redis::Value;
use std::{collections::BTreeMap, time::Duration};

/// What became of a message that its holder settled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Settled {
    /// It is over: delivered.
    Delivered,
    /// It is tried again at this time.
    Delayed(UnixMillis),
    /// It is ready again.
    Ready,
    /// It is among the dead letters.
    Buried,
    /// It was cancelled while it was leased, and is over.
    Cancelled,
    /// It expired while it was leased, and is over.
    ExpiredMessage,
    /// The lease lasts until this time.
    Extended(UnixMillis),
    /// The lease lasts until this time, and a cancel came meanwhile: it will not be tried again.
    ExtendedDoomed(UnixMillis),
    /// The lease had been taken back: nothing was changed, and somebody else may hold the message.
    Expired,
    /// The script could not do it, for this reason.
    Failed(String),
}

/// How a message is given back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Release {
    /// What settles it.
    pub receipt: Receipt,
    /// When it is ready again; `None`: by its back-off.
    pub delay: Option<Duration>,
    /// Whether the attempt does not count, because it was not the message's fault.
    pub keep_attempt: bool,
    /// Why, for the dead letters, where this was the last attempt.
    pub reason: String,
}

// === impl Client ===

impl Client {
    /// Ends messages that were delivered. One answer each, in order.
    pub async fn ack(&self, receipts: &[Receipt]) -> Vec<Result<Settled, Error>> {
        self.settle(Verb::Ack, receipts, |receipt| receipt, |call, receipt| call.push(&receipt.bytes)).await
    }

    /// Gives leases more time, from now: 1 ms to 24 h, another is [`Settled::Failed`]; `None`: their topic's lease.
    pub async fn extend(&self, receipts: &[Receipt], lease: Option<Duration>) -> Vec<Result<Settled, Error>> {
        let lease = lease.map_or_else(String::new, |lease| lease.as_millis().to_string());
        self.settle(
            Verb::Extend,
            receipts,
            |receipt| receipt,
            |call, receipt| {
                call.push(&receipt.bytes);
                call.push(&lease);
            },
        )
        .await
    }

    /// Gives messages back that were not delivered.
    pub async fn release(&self, releases: &[Release]) -> Vec<Result<Settled, Error>> {
        self.settle(
            Verb::Release,
            releases,
            |release| &release.receipt,
            |call, release| {
                call.push(&release.receipt.bytes);
                call.push(release.delay.map_or_else(String::new, |delay| delay.as_millis().to_string()));
                call.push(if release.keep_attempt { "keep" } else { "" });
                call.push(&release.reason);
            },
        )
        .await
    }

    /// Moves messages to the dead letters, each with its reason.
    pub async fn bury(&self, buried: &[(Receipt, String)]) -> Vec<Result<Settled, Error>> {
        self.settle(
            Verb::Bury,
            buried,
            |(receipt, _)| receipt,
            |call, (receipt, reason)| {
                call.push(&receipt.bytes);
                call.push(reason);
            },
        )
        .await
    }

    /// Sends one call a shard, all in one round trip, and brings the answers back into the order of the items.
    async fn settle<T>(
        &self,
        verb: Verb,
        items: &[T],
        receipt: impl Fn(&T) -> &Receipt,
        push: impl Fn(&mut Call, &T),
    ) -> Vec<Result<Settled, Error>> {
        let mut shards: BTreeMap<ShardId, Vec<usize>> = BTreeMap::new();
        for (i, item) in items.iter().enumerate() {
            shards.entry(receipt(item).shard).or_default().push(i);
        }
        let groups: Vec<(ShardId, &[usize])> = shards
            .iter()
            .flat_map(|(&shard, all)| all.chunks(crate::MAX_IDS_A_CALL).map(move |some| (shard, some)))
            .collect();
        let calls: Vec<Call> = groups
            .iter()
            .map(|(shard, some)| {
                let mut call = self.call(verb, *shard);
                some.iter().for_each(|&i| push(&mut call, &items[i]));
                call
            })
            .collect();
        let mut answers: Vec<Option<Result<Settled, Error>>> = items.iter().map(|_| None).collect();
        for ((_, some), reply) in groups.iter().zip(self.send_all(calls).await) {
            for (&i, answer) in some.iter().zip(read(verb, some.len(), reply)) {
                answers[i] = Some(answer);
            }
        }
        answers.into_iter().map(|answer| answer.expect("every item is in one call")).collect()
    }
}

fn read(verb: Verb, count: usize, reply: Result<Value, Error>) -> Vec<Result<Settled, Error>> {
    let answers = reply.and_then(|reply| {
        let mut reply = Reply::new(verb, reply)?;
        (0..count).map(|_| settled(&mut reply)).collect::<Result<Vec<_>, Error>>()
    });
    match answers {
        Ok(answers) => answers.into_iter().map(Ok).collect(),
        Err(error) => vec![Err(error); count],
    }
}

fn settled(reply: &mut Reply) -> Result<Settled, Error> {
    let text = reply.text()?;
    let mut words = Words::new(&text);
    let word = words.word();
    let time = words.number().map(UnixMillis::new);
    Ok(match (word, time) {
        ("delivered", _) => Settled::Delivered,
        ("delayed", Some(due)) => Settled::Delayed(due),
        ("ready", Some(_)) => Settled::Ready,
        ("buried", _) => Settled::Buried,
        ("cancelled", Some(lease_end)) => Settled::ExtendedDoomed(lease_end),
        ("cancelled", None) => Settled::Cancelled,
        ("expired-message", _) => Settled::ExpiredMessage,
        ("expired", _) => Settled::Expired,
        ("failed", _) => Settled::Failed(words.rest().to_owned()),
        (number, _) => match number.parse() {
            Ok(lease_end) => Settled::Extended(UnixMillis::new(lease_end)),
            Err(_) => return Err(reply.nonsense(&text)),
        },
    })
}
