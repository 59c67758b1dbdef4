//! The way of a message through the spool: a Redis that goes away, and comes back.
#![allow(clippy::unwrap_used, reason = "all of it is tests, the functions that they share included")]

mod aborts;
mod backlog;
mod full_disk;
mod full_spool;
mod killed;
mod moved;
mod nodes;
mod noted;
mod order;
mod outage;
mod ready;
mod resting;
mod silence;
mod start;
mod steps;
mod unconfirmed;
mod writes;

use delayq::admin::{Policy, Repeats};
use delayq::protocol::{Holder, ReserveRequest};
use delayq::spool::SpoolRecord;
use delayq::{
    Admin, CancelOutcome, Client, Due, Fate, Message, MessageId, Producer, ProducerOptions, PutOutcome,
    Reschedule, State, Target, Topic, UnixMillis,
};
use delayq_compensator::{CompensatorConfig, Deps, SourcesMetrics, build};
use delayq_service::{Metrics, Readiness, Shutdown};
use delayq_spool::{SpoolReader, SpoolSettings, SpoolStats, SpoolWriter};
use delayq_tests::deadline::{SHORT, wait_until, within};
use delayq_tests::deployment::{Deployment, settings};
use delayq_tests::folder::Folder;
use delayq_tests::redis_server::{RedisOptions, RedisServer};
use std::sync::Arc;
use std::time::Duration;
use steps::{Report, Resubmitter};

const FAR: UnixMillis = UnixMillis::new(4_102_444_800_000);

struct Host {
    deployment: Deployment<RedisServer>,
    folder: Folder,
    spool: SpoolWriter,
    producer: Producer,
}

impl Host {
    async fn start() -> Self {
        Self::on(Deployment::on(lasting_redis().await, 4).await)
    }

    fn on(deployment: Deployment<RedisServer>) -> Self {
        let folder = Folder::new("spool");
        let spool = SpoolWriter::open(folder.path(), &SpoolSettings::default()).unwrap();
        let options = ProducerOptions::default().spool(Arc::new(spool.clone()));
        let producer = Producer::start(deployment.client.clone(), options);
        Self { deployment, folder, spool, producer }
    }

    async fn put(&self, message: Message) -> PutOutcome {
        self.producer.put(message).await.unwrap().outcome
    }

    async fn is_back(&self) {
        let mut n = 0;
        wait_until("a put that goes to Redis", SHORT, || {
            n += 1;
            let put = self.put(message(&format!("back{n}")));
            async { put.await != PutOutcome::Spooled }
        })
        .await;
    }

    async fn is_reached(&self) {
        let admin = Admin::new(self.deployment.client.clone());
        let (admin, topic) = (&admin, &topic());
        wait_until("a count of what Redis has", SHORT, || async { admin.topic(topic).count().await.is_ok() })
            .await;
    }

    /// Puts once more, without the spool; the answer shows the stored message.
    async fn present(&self, message: Message) -> PutOutcome {
        self.deployment.producer.put(message).await.unwrap().outcome
    }
}

async fn lasting_redis() -> RedisServer {
    RedisServer::start_with(RedisOptions::default().append_only("always")).await
}

fn topic() -> Topic {
    Topic::new("orders").unwrap()
}

fn message(id: &str) -> Message {
    Message::new(topic(), format!("body of {id}")).id(id).unwrap().at(FAR)
}

fn target(id: &str) -> Target {
    MessageId::own(id).unwrap().into()
}

/// Returns the sum of the reports.
async fn drain(resubmitter: &mut Resubmitter) -> Report {
    let mut sum = Report::default();
    loop {
        let report = resubmitter.run_once().await.unwrap();
        assert_eq!(report.held, None);
        sum.resubmitted += report.resubmitted;
        sum.rejected += report.rejected;
        if report.at_end {
            return sum;
        }
    }
}

fn resubmitted(count: u64) -> Report {
    Report { resubmitted: count, ..Report::default() }
}

#[tokio::test]
async fn a_spooled_put_of_unknown_fate_is_delivered_however_late_and_aside_where_its_topic_refuses_repeats() {
    let host = Host::start().await;
    let strict = Topic::new("strict").unwrap();
    let refuse = Policy { repeats: Some(Repeats::Refuse), ..Policy::default() };
    Admin::new(host.deployment.client.clone()).topic(&strict).set_policy(&refuse).await.unwrap();
    let long_ago = UnixMillis::new(1_000);
    let lenient = message("a");
    let refused = Message::new(strict, "x").id("a").unwrap().at(FAR);
    let records = [&lenient, &refused].map(|message| SpoolRecord::put(message, Fate::Unknown, long_ago));
    host.spool.append(records.to_vec()).await.unwrap();
    let report = drain(&mut host.resubmitter().await).await;
    assert_eq!((report.resubmitted, report.rejected), (1, 1));
    assert_eq!(host.present(lenient).await, PutOutcome::Exists(State::Delayed, FAR));
    let aside = SpoolReader::open_beside(host.folder.path()).unwrap().rejected(0, 10).unwrap();
    assert!(aside[0].reason.starts_with("stale"), "{aside:?}");
}

#[tokio::test]
async fn what_was_put_while_redis_was_away_is_there_once_after_it_is_back() {
    let mut host = Host::start().await;
    host.deployment.server.kill().await;
    for n in 0..20 {
        assert_eq!(host.put(message(&format!("m{n}"))).await, PutOutcome::Spooled);
    }
    let mut resubmitter = host.resubmitter().await;
    let away = resubmitter.run_once().await.unwrap();
    assert!(away.held.is_some() && away.resubmitted == 0, "{away:?}");
    assert!(resubmitter.run_once().await.unwrap().held.is_some());

    host.deployment.server.resume().await;
    assert_eq!(drain(&mut resubmitter).await, resubmitted(20));
    for n in 0..20 {
        let present = host.present(message(&format!("m{n}"))).await;
        assert_eq!(present, PutOutcome::Exists(State::Delayed, FAR));
    }
    let stats = resubmitter.stats().await.unwrap();
    let expected = SpoolStats { spooled: 20, replayed: 20, waiting: 0, rejected: 0, discarded: 0, ..stats };
    assert!(stats == expected && stats.balances(), "{stats:?}");
}

#[tokio::test]
async fn a_cancel_that_comes_while_the_put_is_spooled_holds() {
    let host = Host::start().await;
    let now = UnixMillis::new(1);
    host.spool.append(vec![SpoolRecord::put(&message("a"), Fate::NotApplied, now)]).await.unwrap();
    let answer = host.deployment.producer.cancel(&topic(), &target("a")).await.unwrap();
    assert_eq!(answer, CancelOutcome::Unknown);
    assert_eq!(host.producer.cancel(&topic(), &target("a")).await.unwrap(), CancelOutcome::Spooled);
    assert_eq!(drain(&mut host.resubmitter().await).await, resubmitted(2));
    let present = host.present(message("a")).await;
    assert!(matches!(present, PutOutcome::Exists(State::Cancelled, _)), "{present:?}");
}

#[tokio::test]
async fn a_reschedule_that_is_spooled_is_carried_out_after_its_put() {
    let host = Host::start().await;
    let (now, later) = (UnixMillis::new(1), UnixMillis::new(FAR.get() + 5_000));
    let records = vec![
        SpoolRecord::put(&message("a"), Fate::NotApplied, now),
        SpoolRecord::reschedule(&topic(), &target("a"), Reschedule::To(Due::At(later)), now),
    ];
    host.spool.append(records).await.unwrap();
    assert_eq!(drain(&mut host.resubmitter().await).await, resubmitted(2));
    assert_eq!(host.present(message("a")).await, PutOutcome::Exists(State::Delayed, later));
}

#[tokio::test]
async fn a_due_time_that_is_past_makes_it_ready_and_a_conflict_is_kept_aside() {
    let host = Host::start().await;
    host.present(Message::new(topic(), "another body").id("taken").unwrap().at(FAR)).await;
    let past = message("past").at(UnixMillis::new(1_000));
    let delayed = Message::new(topic(), "x").id("delay").unwrap().after(Duration::from_secs(60));
    // Tried in 1970: the delay is long over.
    let tried = UnixMillis::new(1);
    let records = [&past, &message("taken"), &delayed].map(|m| SpoolRecord::put(m, Fate::NotApplied, tried));
    host.spool.append(records.to_vec()).await.unwrap();
    assert_eq!(
        drain(&mut host.resubmitter().await).await,
        Report { resubmitted: 2, rejected: 1, ..Report::default() }
    );
    for ready in [past, delayed] {
        let present = host.present(ready).await;
        assert!(matches!(present, PutOutcome::Exists(State::Ready, _)), "{present:?}");
    }
    let rejected = SpoolReader::open_beside(host.folder.path()).unwrap().rejected(0, 10).unwrap();
    assert_eq!(rejected.len(), 1);
    assert_eq!(rejected[0].reason, "the id is taken by another message");
}

#[tokio::test]
async fn a_message_whose_delay_and_expiry_passed_in_an_outage_is_expired_and_not_rejected() {
    let host = Host::start().await;
    let message = Message::new(topic(), "x").id("a").unwrap().after(Duration::from_secs(1));
    let message = message.expires(UnixMillis::new(5_000));
    let record = SpoolRecord::put(&message, Fate::NotApplied, UnixMillis::new(1));
    host.spool.append(vec![record]).await.unwrap();
    assert_eq!(drain(&mut host.resubmitter().await).await, resubmitted(1));
    assert_eq!(Admin::new(host.deployment.client.clone()).topic(&topic()).count().await.unwrap().accepted, 1);
}

#[tokio::test]
async fn a_replace_of_unknown_fate_is_not_delivered_again() {
    let host = Host::start().await;
    // Delivered by the try whose answer was lost, or long before that try.
    let (repeated, fresh) = (message("repeated").replace(), message("fresh").replace());
    for message in [&repeated, &fresh] {
        host.present(message.clone().at(UnixMillis::new(1))).await;
    }
    let ask = ReserveRequest { topics: vec![topic()], most: 10, max_bytes: 0, lease: None };
    let mut receipts = Vec::new();
    for shard in host.deployment.client.shards().shards() {
        let found = Holder::new(host.deployment.client.clone())
            .reserve(&[(shard, ask.clone())])
            .await
            .remove(0)
            .unwrap()
            .messages;
        receipts.extend(found.into_iter().map(|found| found.receipt));
    }
    assert_eq!(Holder::new(host.deployment.client.clone()).ack(&receipts).await.len(), 2);
    // The test's clock never shows these times: no message had finished after the second.
    let (before, after) = (UnixMillis::new(1), FAR);
    let records = vec![
        SpoolRecord::put(&repeated, Fate::Unknown, before),
        SpoolRecord::put(&fresh, Fate::Unknown, after),
    ];
    host.spool.append(records).await.unwrap();
    assert_eq!(drain(&mut host.resubmitter().await).await, resubmitted(2));
    let present = host.present(message("repeated")).await;
    assert!(matches!(present, PutOutcome::Exists(State::Delivered, _)), "{present:?}");
    assert_eq!(host.present(message("fresh")).await, PutOutcome::Exists(State::Delayed, FAR));
}

#[tokio::test]
async fn the_running_compensator_sees_what_is_spooled_and_stops_when_asked() {
    let mut host = Host::start().await;
    let (metrics, shutdown) = (Metrics::new(), Shutdown::new());
    let sources = SourcesMetrics::register(&metrics);
    let deps = || Deps {
        client: host.deployment.client.clone(),
        spool: host.folder.path().to_owned(),
        holder: "the first".to_owned(),
        metrics: sources.clone(),
        readiness: Readiness::new(),
    };
    let compensator = build(CompensatorConfig::default(), deps()).await.unwrap();
    let Err(second) = build(CompensatorConfig::default(), deps()).await else { panic!("a second one") };
    assert!(second.to_string().contains("held by another compensator (the first)"), "{second}");
    let running = tokio::spawn(compensator.run(shutdown.clone()));
    host.deployment.server.kill().await;
    assert_eq!(host.put(message("a")).await, PutOutcome::Spooled);
    host.deployment.server.resume().await;
    wait_until("the record to be resubmitted", SHORT, || async {
        metrics.encode().contains("delayq_source_settled_total{source=\"spool\",outcome=\"done\"} 1")
    })
    .await;
    assert_eq!(host.present(message("a")).await, PutOutcome::Exists(State::Delayed, FAR));
    shutdown.request();
    within("the compensator's end", SHORT, running).await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_spooled_before_a_growth_is_put_once_and_a_spooled_cancel_finds_its_message() {
    let host = Host::start().await;
    let ids: Vec<String> = (0..40).map(|n| format!("order-{n}")).collect();
    // The first half reached Redis without an answer; the replay has to find these messages in their shards.
    for id in &ids[..20] {
        host.deployment.producer.put(message(id)).await.unwrap();
    }
    let mut resubmitter = host.resubmitter().await;
    let before = Client::new(settings(host.deployment.server.url(), host.deployment.client.shards().get()));
    let grown = delayq::ShardCount::new(24).unwrap();
    delayq::Admin::new(before).shards().grow(grown, |_| {}).await.unwrap();
    // Recent enough that no repeat is stale.
    let tried = UnixMillis::new(1_000_000_000_000_000);
    let put = |id: &String| SpoolRecord::put(&message(id), Fate::Unknown, tried);
    let cancel = |id: &String| SpoolRecord::cancel(&topic(), &target(id), tried);
    host.spool.append(ids.iter().map(put).chain(ids.iter().take(10).map(cancel)).collect()).await.unwrap();
    let report = drain(&mut resubmitter).await;
    assert_eq!((report.resubmitted, report.rejected), (50, 0));
    assert_eq!(host.deployment.client.shards(), grown);
    let numbers = delayq::Admin::new(host.deployment.client.clone()).topic(&topic()).count().await.unwrap();
    assert_eq!((numbers.accepted, numbers.cancelled, numbers.delayed), (40, 10, 30));
}
