//! Reserves as many messages as may be handed out, from the shards that may have messages. Each round trip is to one
//! node, so that reserved messages do not wait for the answer of another node.

use super::asking::ShardsToAsk;
use super::delivery::{Delivery, Held};
use super::leases::{Leases, Origin};
use super::looking::{LOOK_EVERY, LOOK_EVERY_BESIDE_A_PUMP, Looking};
use super::promoting::Promoting;
use super::received::Received;
use super::rounds::{ROUNDS, Rounds};
use super::settlement::Settle;
use super::settling::Settler;
use crate::client::Client;
use crate::clock;
use crate::error::Error;
use crate::growth::Growth;
use crate::holder::Holder;
use crate::listen::{Listener, Notification};
use crate::options::{CONCURRENCY, LEASE, TOPICS};
use crate::probe::Probe;
use delayq_core::codec::Unrestored;
use delayq_core::fate::Advice;
use delayq_core::id::Topic;
use delayq_core::shard::{ShardCount, ShardId};
use delayq_core::time::UnixMillis;
use delayq_core::verbs::reserve::{Receipt, Reservation, ReserveReport, ReserveRequest};
use delayq_core::verbs::settle::Release;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

/// The options of a consumer.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ConsumerOptions {
    /// The topics in order of preference, strictly followed by each reserve from a shard. There is no order between
    /// shards, and reserved messages are handed out before newer messages; a `concurrency` of 1 limits that to one
    /// message. 1 to 500.
    pub topics: Vec<Topic>,
    /// Maximum messages handed out and not settled, 1 to 10,000. Default 64.
    pub concurrency: usize,
    /// The length of a lease unless extended; `None`: the setting of the topic. A lease is extended after each third of
    /// the length, until the message is settled. 1 ms to 24 h; at least 1 s is sensible.
    pub lease: Option<Duration>,
    /// Also hands out delayed messages that are due until this time, whenever fewer messages are ready than may be
    /// handed out: the earliest due of all shards, topic by topic, and no more than there is room for. Messages that are
    /// promoted and not handed out, because the consumer stops or another one was quicker, are ready for every consumer.
    /// Later puts due until then are noticed within a second. `None`: only ready messages.
    pub promote_until: Option<UnixMillis>,
    /// True: the consumer also pumps due messages, so that no timer is needed. Consumers that pump share the shards by
    /// locks of 10 s; a consumer that ends gives its shards to the others at once. Timers win: while timers pump, a
    /// consumer only watches. Default false.
    pub pump: bool,
}

/// Minimum bytes to ask from a shard at once, regardless of the number of shards.
const LEAST_BYTES: usize = 64 * 1024;
/// Pause after Redis could not be used.
const REST: Duration = Duration::from_millis(200);
/// The part of all places that must be free for a round while another round is in flight.
const PART_OF_ALL: usize = 8;

pub(super) struct Fetcher {
    pub(super) client: Client,
    pub(super) options: ConsumerOptions,
    pub(super) leases: Arc<Leases>,
    pub(super) settler: Settler,
    pub(super) handed: mpsc::UnboundedSender<Delivery>,
}

struct Fetching {
    growth: Growth,
    shards: Vec<ShardId>,
    listener: Listener,
    asking: ShardsToAsk,
    looking: Looking,
    rounds: Rounds,
    /// The shards in which the pump of this consumer made messages ready.
    pumped: mpsc::UnboundedReceiver<ShardId>,
    /// Maximum messages that the rounds in flight may bring.
    out: usize,
    /// True if a permanent refusal was reported: no other is reported until a reserve succeeds.
    is_refused: bool,
}

/// One round trip: the node, the asked shards with the number of messages for each, and the answers.
struct RoundTrip {
    node: String,
    sent: Instant,
    asked: Vec<(ShardId, usize)>,
    /// `None`: the call only tried the node.
    reports: Vec<Result<Option<ReserveReport>, Error>>,
}

// === impl ConsumerOptions ===

impl ConsumerOptions {
    /// Returns the defaults for these topics.
    pub fn new(topics: impl Into<Vec<Topic>>) -> Self {
        Self { topics: topics.into(), concurrency: 64, lease: None, promote_until: None, pump: false }
    }

    /// Sets [`Self::concurrency`].
    #[must_use]
    pub fn concurrency(self, concurrency: usize) -> Self {
        Self { concurrency, ..self }
    }

    /// Sets [`Self::lease`].
    #[must_use]
    pub fn lease(self, lease: Duration) -> Self {
        Self { lease: Some(lease), ..self }
    }

    /// Sets [`Self::pump`].
    #[must_use]
    pub fn pump(self, pump: bool) -> Self {
        Self { pump, ..self }
    }

    /// Sets [`Self::promote_until`].
    #[must_use]
    pub fn promote_until(self, until: UnixMillis) -> Self {
        Self { promote_until: Some(until), ..self }
    }

    pub(crate) fn check(&self) -> Result<(), Error> {
        TOPICS.check(self.topics.len())?;
        CONCURRENCY.check(self.concurrency)?;
        self.lease.map_or(Ok(()), |lease| LEASE.check(lease).map(drop))?;
        Ok(self.promote_until.map_or(Ok(()), |until| until.check("promote_until"))?)
    }
}

// === impl Fetcher ===

impl Fetcher {
    pub(super) async fn run(self, stopping: CancellationToken, pumped: mpsc::UnboundedReceiver<ShardId>) {
        let growth = self.client.growth();
        let shards: Vec<ShardId> = growth.shards().shards().collect();
        // On a separate connection, so that a reserve does not wait behind the answers to settlements.
        let holder = Holder::new(self.client.apart());
        let listener = holder.listen_as_worker(shards.clone(), &self.options.topics);
        let every = if self.options.pump { LOOK_EVERY_BESIDE_A_PUMP } else { LOOK_EVERY };
        let (asking, looking, rounds) =
            (ShardsToAsk::default(), Looking::new(every, clock::instant()), Rounds::default());
        let (out, is_refused) = (0, false);
        let mut watch =
            Fetching { growth, shards, listener, asking, looking, rounds, pumped, out, is_refused };
        let places = holder.places();
        // The nodes of a cluster have separate limits.
        let most = if places.is_one() { ROUNDS } else { usize::MAX };
        let mut rounds = FuturesUnordered::new();
        let of = |until| Promoting::new(&self.client, &self.options.topics, until);
        let mut promoting = self.options.promote_until.map(of);
        while !stopping.is_cancelled() && !self.handed.is_closed() {
            watch.look_around(&self.options.topics);
            while rounds.len() < most && self.may_ask(&watch) {
                // Half of the free places, so that the next notification finds free places.
                let free = self.free(&watch).div_ceil(2);
                let asked = watch.asking.take(clock::instant(), free);
                if asked.is_empty() {
                    break;
                }
                for asked in places.by_node(asked, |&(shard, _)| shard) {
                    let node = places.node(asked[0].0);
                    let asked = watch.rounds.begin(&node, asked);
                    if !asked.is_empty() {
                        asked.iter().for_each(|&(shard, _)| watch.looking.asked(shard, clock::instant()));
                        watch.out += asked.iter().map(|(_, most)| most).sum::<usize>();
                        rounds.push(self.fetch(&holder, node, asked));
                    }
                }
            }
            if let Some(promoting) = promoting.as_mut().filter(|_| rounds.is_empty())
                && let Some(shards) = stopping.run_until_cancelled(promoting.step(self.free(&watch))).await
                && !shards.is_empty()
            {
                shards.into_iter().for_each(|shard| watch.asking.ask(shard));
                continue;
            }
            let may_ask = rounds.len() < most && self.may_ask(&watch);
            if let Some(round) = self.wait(&mut watch, &mut rounds, may_ask, &stopping).await {
                self.take(round, &mut watch);
            }
        }
        // Messages reserved by the remaining rounds are released immediately, instead of at the end of the lease.
        while let Some(round) = rounds.next().await {
            self.take(round, &mut watch);
        }
    }

    async fn wait(
        &self,
        watch: &mut Fetching,
        rounds: &mut FuturesUnordered<impl Future<Output = RoundTrip>>,
        may_ask: bool,
        stopping: &CancellationToken,
    ) -> Option<RoundTrip> {
        let look = watch.looking.next();
        let next = watch.asking.next(clock::instant()).filter(|_| may_ask).map_or(look, |at| at.min(look));
        tokio::select! {
            Some(round) = rounds.next(), if !rounds.is_empty() => return Some(round),
            notification = watch.listener.next() => watch.note(notification, &self.options.topics),
            Some(shard) = watch.pumped.recv() => watch.asking.ask(shard),
            shards = watch.growth.next() => watch.grow(shards),
            () = sleep_until(next), if may_ask => {}
            () = self.leases.freed(), if !may_ask && watch.out == 0 => {}
            () = stopping.cancelled() => {}
            () = self.handed.closed() => {}
        }
        None
    }

    fn free(&self, watch: &Fetching) -> usize {
        self.leases.free().saturating_sub(watch.out)
    }

    /// Always true if no round in flight may bring a message, otherwise if the new round may bring several
    /// messages. Places that become free meanwhile are gathered for the next round.
    fn may_ask(&self, watch: &Fetching) -> bool {
        let least = if watch.out == 0 { 1 } else { self.leases.most().div_ceil(PART_OF_ALL) };
        self.free(watch) >= least
    }

    async fn fetch(&self, holder: &Holder, node: String, asked: Vec<(ShardId, usize)>) -> RoundTrip {
        // All answers together must arrive within the deadline of a call.
        let max_bytes = (delayq_core::limits::MAX_BYTES_A_CALL / asked.len().max(1)).max(LEAST_BYTES);
        let request = |most: usize| ReserveRequest {
            topics: self.options.topics.clone(),
            most: u16::try_from(most).unwrap_or(u16::MAX),
            max_bytes: max_bytes as u32,
            lease: self.options.lease,
        };
        let sent = clock::instant();
        let reports = match asked[..] {
            [(shard, 0)] => vec![Probe::new(holder.client()).takes_writes(shard).await.map(|()| None)],
            _ => {
                let requests: Vec<_> = asked.iter().map(|&(shard, most)| (shard, request(most))).collect();
                holder.reserve(&requests).await.into_iter().map(|report| report.map(Some)).collect()
            }
        };
        RoundTrip { node, sent, asked, reports }
    }

    fn take(&self, round: RoundTrip, watch: &mut Fetching) {
        let is_silence = |report: &Result<_, Error>| report.as_ref().is_err_and(Error::is_silence);
        let is_silent = round.reports.iter().all(is_silence);
        for shard in watch.rounds.end(&round.node, is_silent) {
            match is_silent {
                true => watch.asking.ask_later(shard, clock::instant(), REST),
                false => watch.asking.ask(shard),
            }
        }
        for ((shard, most), report) in round.asked.into_iter().zip(round.reports) {
            watch.out -= most;
            match report {
                Ok(None) => watch.asking.ask(shard),
                Ok(Some(report)) => {
                    watch.is_refused = false;
                    match self.hand_out(round.sent, most, report) {
                        Some(Duration::ZERO) => watch.asking.ask_for_more(shard),
                        Some(wait) => watch.asking.ask_later(shard, clock::instant(), wait),
                        None => {}
                    }
                }
                Err(error) => {
                    if error.advice() == Advice::GiveUp && !std::mem::replace(&mut watch.is_refused, true) {
                        tracing::warn!(%shard, %error, "cannot reserve until this is fixed");
                    } else {
                        tracing::debug!(%shard, %error, "cannot reserve");
                    }
                    watch.asking.ask_later(shard, clock::instant(), REST);
                }
            }
        }
    }

    /// Returns the time until the next call to the shard: zero if there may be more.
    fn hand_out(&self, sent: Instant, most: usize, report: ReserveReport) -> Option<Duration> {
        let wait = if report.messages.len() >= most { Some(Duration::ZERO) } else { report.wait };
        let origin = Origin { sent, now: report.now.millis() };
        for Reservation { receipt, topic, id, ready, lease_end, envelope, unrestored, .. } in report.messages
        {
            if let Some(why) = unrestored {
                tracing::warn!(%topic, %id, %why, "cannot decompress a payload");
                self.settler.settle_later(put_back(receipt, why));
                continue;
            }
            let lost = self.leases.begin(receipt.clone(), origin, lease_end);
            let (leases, settler) = (Arc::clone(&self.leases), self.settler.clone());
            let held = Held::new(receipt, lost, leases, settler);
            let received = Received { topic, id, ready, envelope };
            // If the consumer was dropped, this drop gives the message back.
            let _ = self.handed.send(Delivery { received, held });
        }
        wait
    }
}

// === impl Fetching ===

impl Fetching {
    fn look_around(&mut self, topics: &[Topic]) {
        if let Some(shards) = self.growth.try_next() {
            self.grow(shards);
        }
        self.looking
            .take(self.shards.len(), clock::instant())
            .into_iter()
            .for_each(|shard| self.asking.ask(shard));
        while let Some(notification) = self.listener.try_next() {
            self.note(notification, topics);
        }
    }

    fn note(&mut self, notification: Notification, topics: &[Topic]) {
        match notification {
            Notification::Ready(shard, topic)
                if topic.as_ref().is_none_or(|topic| topics.contains(topic)) =>
            {
                self.asking.ask(shard);
            }
            Notification::Resync => self.ask_all(),
            Notification::Ready(..) | Notification::Wake(..) | Notification::Freed(..) => {}
        }
    }

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

/// Settles a message with an unreadable payload: buries the message only if the payload can never be read.
fn put_back(receipt: Receipt, why: Unrestored) -> Settle {
    match why {
        Unrestored::Never(error) => Settle::Bury(receipt, error.to_string()),
        Unrestored::NotNow(reason) => {
            Settle::Release(Release { receipt, delay: Some(REST), keep_attempt: true, reason })
        }
    }
}
