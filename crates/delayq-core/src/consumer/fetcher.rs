//! Reserving: as much as may be handed out, from the shards that may have something.

use super::{
    ConsumerOptions, Delivery, Held,
    asking::Asking,
    leases::Leases,
    settling::{Settle, Settler},
};
use crate::{
    Client, Growth, Heard, Listener, Reservation, ReserveReport, ReserveRequest, ShardCount, ShardId, Topic,
};
use std::{sync::Arc, time::Duration};
use tokio::{
    sync::mpsc,
    time::{Instant, sleep, sleep_until},
};
use tokio_util::sync::CancellationToken;

/// How often every shard is asked, whatever was heard: what a lost notification costs at most.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How long to rest after Redis could not be used.
const REST: Duration = Duration::from_millis(200);

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
    look: Instant,
}

// === impl Fetcher ===

impl Fetcher {
    /// Reserves until `stopping`, or until nobody takes what is reserved.
    pub(super) async fn run(self, stopping: CancellationToken) {
        let growth = self.client.growth();
        let shards: Vec<ShardId> = growth.shards().shards().collect();
        let listener = self.client.listen_for_ready(shards.clone());
        let mut watch = Watch { growth, shards, listener, asking: Asking::default(), look: now() };
        while !stopping.is_cancelled() && !self.handed.is_closed() {
            watch.look_around(&self.options.topics);
            let asked = watch.asking.take(now(), self.leases.free());
            if asked.is_empty() {
                self.wait(&mut watch, &stopping).await;
            } else if !self.fetch(&asked, &mut watch.asking).await {
                tokio::select! {
                    () = sleep(REST) => {}
                    () = stopping.cancelled() => {}
                }
            }
        }
    }

    /// Waits for anything that may make another round worth it.
    async fn wait(&self, watch: &mut Watch, stopping: &CancellationToken) {
        let free = self.leases.free() > 0;
        let next = watch.asking.next(now()).filter(|_| free).map_or(watch.look, |at| at.min(watch.look));
        tokio::select! {
            heard = watch.listener.next() => watch.note(heard, &self.options.topics),
            shards = watch.growth.next() => watch.grow(shards),
            () = sleep_until(next), if free => {}
            () = self.leases.freed(), if !free => {}
            () = stopping.cancelled() => {}
            () = self.handed.closed() => {}
        }
    }

    /// One round trip to the shards in `asked`; false where Redis could not be used.
    async fn fetch(&self, asked: &[(ShardId, usize)], asking: &mut Asking) -> bool {
        let request = |most: usize| ReserveRequest {
            topics: self.options.topics.clone(),
            most: u16::try_from(most).unwrap_or(u16::MAX),
            most_bytes: crate::MAX_BYTES_A_CALL as u32,
            lease: self.options.lease,
        };
        let requests: Vec<_> = asked.iter().map(|&(shard, most)| (shard, request(most))).collect();
        let reports = self.client.reserve_many(&requests).await;
        let mut usable = true;
        for (&(shard, most), report) in asked.iter().zip(reports) {
            match report {
                Ok(report) => self.hand_out(shard, most, report, asking),
                Err(error) => {
                    tracing::debug!(%shard, %error, "nothing could be reserved");
                    usable = false;
                    asking.ask(shard);
                }
            }
        }
        usable
    }

    fn hand_out(&self, shard: ShardId, most: usize, report: ReserveReport, asking: &mut Asking) {
        let bytes: usize = report.messages.iter().map(|message| message.envelope.payload.len()).sum();
        if report.messages.len() >= most || bytes >= crate::MAX_BYTES_A_CALL {
            asking.ask(shard);
        } else if let Some(wait) = report.wait {
            asking.ask_later(shard, now(), wait);
        }
        for Reservation { receipt, topic, id, ready, envelope, .. } in report.messages {
            if envelope.zstd {
                let reason = "its compressed payload cannot be restored".to_owned();
                self.settler.settle_later(Settle::Bury(receipt, reason));
                continue;
            }
            let lost = self.leases.begin(receipt.clone());
            let (leases, settler) = (Arc::clone(&self.leases), self.settler.clone());
            let held = Some(Held { receipt, lost, leases, settler });
            // Nobody there any more: the delivery is dropped, and thereby released.
            let _ = self.handed.send(Delivery { topic, id, ready, envelope, held });
        }
    }
}

// === impl Watch ===

impl Watch {
    /// Takes in what was heard, and looks at every shard when it is time to.
    fn look_around(&mut self, topics: &[Topic]) {
        if let Some(shards) = self.growth.try_next() {
            self.grow(shards);
        }
        if now() >= self.look {
            self.ask_all();
            self.look = now() + LOOK_EVERY;
        }
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

#[allow(clippy::disallowed_methods, reason = "tokio's clock, which tests can pause")]
fn now() -> Instant {
    Instant::now()
}
