//! The task that reserves for all desks.

use super::desk::{Desk, Waiter, WantedKind};
use super::giving_back::Lost;
use crate::quotas::UNDER_WAY;
use crate::receipts::Receipts;
use crate::tenant::Tenant;
use delayq::Error;
use delayq::protocol::{Growth, Holder, Listener, Notification, Places, ReserveReport, ShardId};
use delayq_service::Shutdown;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval};

/// How often every shard is asked without a notification: the maximum cost of a lost notification.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// When a shard is asked again that could not be asked.
const REST: Duration = Duration::from_millis(200);

pub(crate) struct ReserveTask {
    pub(crate) holder: Holder,
    pub(crate) receipts: Receipts,
    pub(crate) arriving: mpsc::UnboundedReceiver<Waiter>,
    pub(crate) back: mpsc::UnboundedSender<Lost>,
}

struct Dispatching {
    growth: Growth,
    listener: Listener,
    places: Places,
    desks: HashMap<WantedKind, Desk>,
    rounds: FuturesUnordered<Pin<Box<dyn Future<Output = ReserveRound> + Send>>>,
    shards: Vec<ShardId>,
    later: Vec<(Instant, WantedKind, ShardId)>,
    under_way: UnderWay,
    /// The desk that takes first: each in turn, so that no desk of a tenant has all that may be under way.
    first: usize,
}

/// Messages that the reserves of a tenant may bring.
#[derive(Default)]
struct UnderWay(HashMap<Tenant, usize>);

struct ReserveRound {
    kind: WantedKind,
    asked: Vec<(ShardId, usize)>,
    reports: Vec<Result<ReserveReport, Error>>,
}

// === impl ReserveTask ===

impl ReserveTask {
    /// At shutdown every request is answered, and messages that still arrive are given back.
    pub(crate) async fn run(mut self, shutdown: Shutdown) {
        let mut watch = Dispatching::new(&self.holder);
        let mut looks = interval(LOOK_EVERY);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let later = watch.later.iter().map(|(at, ..)| *at).min();
            tokio::select! {
                waiter = self.arriving.recv() => match waiter {
                    Some(waiter) => watch.join(waiter),
                    None => break,
                },
                Some(round) = watch.rounds.next(), if !watch.rounds.is_empty() => watch.end(round, &self.back),
                notification = watch.listener.next() => watch.note(notification, &self.receipts),
                _ = watch.growth.next() => watch.grow(),
                _ = looks.tick() => watch.look(),
                () = until(later) => watch.ask_later(),
                () = shutdown.requested() => break,
            }
            watch.reserve(&self.holder, &self.back);
        }
        watch.desks.values_mut().for_each(Desk::close);
        while let Some(round) = watch.rounds.next().await {
            watch.end(round, &self.back);
        }
    }
}

/// Asks shards of one node.
fn round(
    holder: Holder,
    kind: WantedKind,
    desk: &Desk,
    asked: Vec<(ShardId, usize)>,
) -> impl Future<Output = ReserveRound> + Send + use<> {
    let requests: Vec<_> = asked.iter().map(|&(shard, most)| (shard, desk.request(most))).collect();
    async move {
        let reports = holder.reserve(&requests).await;
        ReserveRound { kind, asked, reports }
    }
}

async fn until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

// === impl Dispatching ===

impl Dispatching {
    fn new(holder: &Holder) -> Self {
        let growth = holder.client().growth();
        let shards: Vec<ShardId> = growth.shards().shards().collect();
        let listener = holder.listen(shards.clone());
        let (desks, rounds, places) = (HashMap::new(), FuturesUnordered::new(), holder.places());
        let (later, under_way) = (Vec::new(), UnderWay::default());
        Self { growth, listener, places, desks, rounds, shards, later, under_way, first: 0 }
    }

    fn join(&mut self, waiter: Waiter) {
        let desk = self.desks.entry(waiter.kind().clone());
        let desk = desk.or_insert_with_key(|kind| Desk::new(kind.clone(), &self.shards));
        desk.join(waiter, &self.shards);
    }

    fn note(&mut self, notification: Notification, receipts: &Receipts) {
        match notification {
            Notification::Ready(shard, topic) => {
                let wants = |desk: &&mut Desk| topic.as_ref().is_none_or(|topic| desk.wants(topic));
                self.desks.values_mut().filter(wants).for_each(|desk| desk.ask(shard));
            }
            Notification::Resync => {
                receipts.forget();
                self.ask_all();
            }
            Notification::Wake(..) | Notification::Freed(..) => {}
        }
    }

    fn grow(&mut self) {
        let added: Vec<ShardId> = self.growth.shards().shards().skip(self.shards.len()).collect();
        self.listener.add(added.clone());
        self.shards.extend(added);
        self.ask_all();
    }

    /// Forgets desks without requests.
    fn look(&mut self) {
        self.desks.retain(|_, desk| desk.tidy());
        self.ask_all();
    }

    fn ask_all(&mut self) {
        let shards = &self.shards;
        self.desks.values_mut().for_each(|desk| shards.iter().for_each(|&shard| desk.ask(shard)));
    }

    fn ask_later(&mut self) {
        let now = Instant::now();
        for (_, kind, shard) in self.later.extract_if(.., |(at, ..)| *at <= now) {
            if let Some(desk) = self.desks.get_mut(&kind) {
                desk.ask(shard);
            }
        }
    }

    /// From each node that has shards to ask.
    fn reserve(&mut self, holder: &Holder, back: &mpsc::UnboundedSender<Lost>) {
        self.first = (self.first + 1) % self.desks.len().max(1);
        for (skipped, most) in [(self.first, usize::MAX), (0, self.first)] {
            for (kind, desk) in self.desks.iter_mut().skip(skipped).take(most) {
                let taken = desk.take(self.under_way.left(kind));
                self.under_way.add(kind, &taken);
                for asked in self.places.by_node(taken, |&(shard, _)| shard) {
                    self.rounds.push(Box::pin(round(holder.clone(), kind.clone(), desk, asked)));
                }
                desk.settle(back);
            }
        }
    }

    fn end(&mut self, round: ReserveRound, back: &mpsc::UnboundedSender<Lost>) {
        let ReserveRound { kind, asked, reports } = round;
        let shards = self.shards.len();
        self.under_way.end(&kind, &asked);
        let desk = self.desks.get_mut(&kind).expect("a desk with a reserve in flight is kept");
        let (now, mut messages) = (Instant::now(), Vec::new());
        for ((shard, most), report) in asked.into_iter().zip(reports) {
            desk.answered(shard, most, report.as_ref().err(), shards);
            match report {
                Ok(report) => {
                    match report.wait {
                        Some(wait) if !wait.is_zero() => self.later.push((now + wait, kind.clone(), shard)),
                        Some(_) => desk.ask_again(shard),
                        None if report.messages.len() >= most => desk.ask_again(shard),
                        None => {}
                    }
                    messages.extend(report.messages);
                }
                Err(error) => {
                    tracing::debug!(%shard, %error, "cannot reserve");
                    self.later.push((now + REST, kind.clone(), shard));
                }
            }
        }
        // Together: a request gets the messages of all shards that were asked at once.
        desk.hand_out(messages, back);
        desk.dismiss();
    }
}

// === impl UnderWay ===

impl UnderWay {
    /// Returns the number of further messages that may be under way.
    fn left(&self, kind: &WantedKind) -> usize {
        let Some(tenant) = &kind.tenant else { return usize::MAX };
        (UNDER_WAY as usize).saturating_sub(self.0.get(tenant).copied().unwrap_or(0))
    }

    fn add(&mut self, kind: &WantedKind, asked: &[(ShardId, usize)]) {
        if let (Some(tenant), false) = (&kind.tenant, asked.is_empty()) {
            *self.0.entry(tenant.clone()).or_default() += messages(asked);
        }
    }

    fn end(&mut self, kind: &WantedKind, asked: &[(ShardId, usize)]) {
        let Some(tenant) = &kind.tenant else { return };
        let left = self.0.get(tenant).map_or(0, |under_way| under_way - messages(asked));
        match left {
            0 => self.0.remove(tenant),
            left => self.0.insert(tenant.clone(), left),
        };
    }
}

fn messages(asked: &[(ShardId, usize)]) -> usize {
    asked.iter().map(|&(_, most)| most).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(tenant: Option<&str>, lease: u64) -> WantedKind {
        let tenant = tenant.map(|tenant| tenant.parse().unwrap());
        let (topics, homes, lease) = (Vec::new(), Vec::new(), Duration::from_secs(lease));
        WantedKind { topics, homes, lease, max_bytes: 1, tenant }
    }

    #[test]
    fn the_desks_of_a_tenant_share_what_may_be_under_way_and_others_have_their_own() {
        let (mut under_way, shard) = (UnderWay::default(), ShardId::new(0));
        let (acme, again) = (kind(Some("acme"), 1), kind(Some("acme"), 2));
        under_way.add(&acme, &[(shard, 40), (shard, 4)]);
        assert_eq!((under_way.left(&again), under_way.left(&kind(Some("globex"), 1))), (20, 64));
        assert_eq!(under_way.left(&kind(None, 1)), usize::MAX);
        under_way.add(&again, &[(shard, 20)]);
        assert_eq!(under_way.left(&acme), 0);
        under_way.end(&acme, &[(shard, 40), (shard, 4)]);
        under_way.end(&again, &[(shard, 20)]);
        assert_eq!((under_way.left(&acme), under_way.0.len()), (64, 0));
    }
}
