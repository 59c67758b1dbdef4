//! Reserving: as much as may be handed out, from the shards that may have something.

use super::{
    ConsumerOptions, Delivery, Held,
    asking::Asking,
    leases::{Leases, Origin},
    looking::Looking,
    settlement::Settle,
    settling::Settler,
};
use crate::{
    Advice, Client, Error, Growth, Heard, Listener, Receipt, Release, Reservation, ReserveReport,
    ReserveRequest, ShardCount, ShardId, Topic, Unrestored,
};
use futures_util::{StreamExt, stream::FuturesUnordered};
use std::{sync::Arc, time::Duration};
use tokio::{
    sync::mpsc,
    time::{Instant, sleep, sleep_until},
};
use tokio_util::sync::CancellationToken;

/// The least bytes that a shard is asked for at once, however many are asked.
const LEAST_BYTES: usize = 64 * 1024;
/// How long to rest after Redis could not be used.
const REST: Duration = Duration::from_millis(200);
/// Round trips under way at once: what is heard while one is out does not wait for its answer.
const ROUNDS: usize = 4;

pub(super) struct Fetcher {
    pub(super) client: Client,
    pub(super) options: ConsumerOptions,
    pub(super) leases: Arc<Leases>,
    pub(super) settler: Settler,
    pub(super) handed: mpsc::UnboundedSender<Delivery>,
}

/// What a fetcher watches: the shards, what is heard of them, and which of them to ask.
struct Watch {
    growth: Growth,
    shards: Vec<ShardId>,
    listener: Listener,
    asking: Asking,
    looking: Looking,
    /// How many messages the rounds under way may bring.
    out: usize,
    /// What is refused for good was told, and is not told again each time.
    is_refused: bool,
}

/// One round trip: which shards were asked, for how many each, and what they answered.
struct Round {
    sent: Instant,
    asked: Vec<(ShardId, usize)>,
    reports: Vec<Result<ReserveReport, Error>>,
}

// === impl Fetcher ===

impl Fetcher {
    /// Reserves until `stopping`, or until nobody takes what is reserved.
    pub(super) async fn run(self, stopping: CancellationToken) {
        let growth = self.client.growth();
        let shards: Vec<ShardId> = growth.shards().shards().collect();
        let listener = self.client.listen_for_ready(shards.clone());
        let (asking, looking) = (Asking::default(), Looking::new(now()));
        let mut watch = Watch { growth, shards, listener, asking, looking, out: 0, is_refused: false };
        // On a connection of its own: a reserve does not wait behind the answers to settlements.
        let client = self.client.apart();
        let mut rounds = FuturesUnordered::new();
        while !stopping.is_cancelled() && !self.handed.is_closed() {
            watch.look_around(&self.options.topics);
            while rounds.len() < ROUNDS {
                // Half of what is free, so that the next that is heard finds something left.
                let free = self.leases.free().saturating_sub(watch.out).div_ceil(2);
                let asked = watch.asking.take(now(), free);
                if asked.is_empty() {
                    break;
                }
                asked.iter().for_each(|&(shard, _)| watch.looking.asked(shard, now()));
                watch.out += asked.iter().map(|(_, most)| most).sum::<usize>();
                rounds.push(self.fetch(&client, asked));
            }
            if let Some(round) = self.wait(&mut watch, &mut rounds, &stopping).await
                && !self.take(round, &mut watch)
            {
                tokio::select! {
                    () = sleep(REST) => {}
                    () = stopping.cancelled() => {}
                }
            }
        }
        // What they reserved is given back at once, instead of when its lease runs out.
        while let Some(round) = rounds.next().await {
            self.take(round, &mut watch);
        }
    }

    /// Waits for anything that may make another round worth it: the end of one, most of all.
    async fn wait(
        &self,
        watch: &mut Watch,
        rounds: &mut FuturesUnordered<impl Future<Output = Round>>,
        stopping: &CancellationToken,
    ) -> Option<Round> {
        let free = self.leases.free() > watch.out;
        let may_ask = free && rounds.len() < ROUNDS;
        let look = watch.looking.next();
        let next = watch.asking.next(now()).filter(|_| may_ask).map_or(look, |at| at.min(look));
        tokio::select! {
            Some(round) = rounds.next(), if !rounds.is_empty() => return Some(round),
            heard = watch.listener.next() => watch.note(heard, &self.options.topics),
            shards = watch.growth.next() => watch.grow(shards),
            () = sleep_until(next), if may_ask => {}
            () = self.leases.freed(), if !free => {}
            () = stopping.cancelled() => {}
            () = self.handed.closed() => {}
        }
        None
    }

    async fn fetch(&self, client: &Client, asked: Vec<(ShardId, usize)>) -> Round {
        // All answers together have to come within the deadline of a call.
        let most_bytes = (crate::MAX_BYTES_A_CALL / asked.len().max(1)).max(LEAST_BYTES);
        let request = |most: usize| ReserveRequest {
            topics: self.options.topics.clone(),
            most: u16::try_from(most).unwrap_or(u16::MAX),
            most_bytes: most_bytes as u32,
            lease: self.options.lease,
        };
        let sent = now();
        let requests: Vec<_> = asked.iter().map(|&(shard, most)| (shard, request(most))).collect();
        let reports = client.reserve_many(&requests).await;
        Round { sent, asked, reports }
    }

    /// Hands out what a round brought; false where Redis could not be used.
    fn take(&self, round: Round, watch: &mut Watch) -> bool {
        let mut usable = true;
        for ((shard, most), report) in round.asked.into_iter().zip(round.reports) {
            watch.out -= most;
            match report {
                Ok(report) => {
                    watch.is_refused = false;
                    if let Some(wait) = self.hand_out(round.sent, most, report) {
                        watch.asking.ask_later(shard, now(), wait);
                    }
                }
                Err(error) => {
                    if error.advice() == Advice::GiveUp && !std::mem::replace(&mut watch.is_refused, true) {
                        tracing::warn!(%shard, %error, "nothing can be reserved until this is put right");
                    } else {
                        tracing::debug!(%shard, %error, "nothing could be reserved");
                    }
                    usable = false;
                    watch.asking.ask(shard);
                }
            }
        }
        usable
    }

    /// Hands out what one shard answered. When to ask it again: at once where there may be more.
    fn hand_out(&self, sent: Instant, most: usize, report: ReserveReport) -> Option<Duration> {
        let wait = if report.messages.len() >= most { Some(Duration::ZERO) } else { report.wait };
        let origin = Origin { sent, now: report.now.millis() };
        for Reservation { receipt, topic, id, ready, lease_end, envelope, unrestored, .. } in report.messages
        {
            if let Some(why) = unrestored {
                tracing::warn!(%topic, %id, %why, "a compressed payload is not restored");
                self.settler.settle_later(put_back(receipt, why));
                continue;
            }
            let lost = self.leases.begin(receipt.clone(), origin, lease_end);
            let (leases, settler) = (Arc::clone(&self.leases), self.settler.clone());
            let held = Some(Held { receipt, lost, leases, settler });
            if let Err(mpsc::error::SendError(unstarted)) =
                self.handed.send(Delivery { topic, id, ready, envelope, held })
            {
                unstarted.give_back_later();
            }
        }
        wait
    }
}

// === impl Watch ===

impl Watch {
    /// Takes in what was heard, and looks at every shard when it is time to.
    fn look_around(&mut self, topics: &[Topic]) {
        if let Some(shards) = self.growth.try_next() {
            self.grow(shards);
        }
        self.looking.take(self.shards.len(), now()).into_iter().for_each(|shard| self.asking.ask(shard));
        while let Some(heard) = self.listener.try_next() {
            self.note(heard, topics);
        }
    }

    fn note(&mut self, heard: Heard, topics: &[Topic]) {
        match heard {
            Heard::Ready(shard, topic) if topic.as_ref().is_none_or(|topic| topics.contains(topic)) => {
                self.asking.ask(shard);
            }
            Heard::Resync => self.ask_all(),
            Heard::Ready(..) | Heard::Wake(..) => {}
        }
    }

    /// Watches the shards that a growth has added, too.
    fn grow(&mut self, shards: ShardCount) {
        let added: Vec<ShardId> = shards.shards().skip(self.shards.len()).collect();
        added.iter().for_each(|&shard| self.asking.ask(shard));
        self.shards.extend(&added);
        self.listener.add(added);
    }

    fn ask_all(&mut self) {
        self.shards.iter().for_each(|&shard| self.asking.ask(shard));
    }
}

/// What becomes of a message whose payload nobody can read: only what can never be read is buried.
fn put_back(receipt: Receipt, why: Unrestored) -> Settle {
    match why {
        Unrestored::Never(error) => Settle::Bury(receipt, error.to_string()),
        Unrestored::NotNow(reason) => {
            Settle::Release(Release { receipt, delay: Some(REST), keep_attempt: true, reason })
        }
    }
}

#[allow(clippy::disallowed_methods, reason = "tokio's clock, which tests can pause")]
fn now() -> Instant {
    Instant::now()
}
