//! A shard with a topic of stuck messages.

use crate::bare_shard::BareShard;
use crate::snapshot::lossy;
use delayq::admin::{Audit, FindingKind, Policy, Sweep, SweptFault};
use delayq::protocol::{Holder, Owner, ReserveRequest, Scripts, ShardId};
use delayq::{Admin, Client, Message, MessageId, Producer, Settled, Topic};
use delayq_tests::clock_shim::ClockShim;
use delayq_tests::deadline::{LONG, wait_until};
use delayq_tests::deployment::Deployment;
use delayq_tests::redis_server::{RedisOptions, RedisServer};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

pub(super) const SHARD: ShardId = ShardId::new(0);
const LEASE: Duration = Duration::from_secs(60);

pub(super) struct Scene {
    server: RedisServer,
    pub(super) clock: ClockShim,
    pub(super) client: Client,
    pub(super) producer: Producer,
    pub(super) admin: Admin,
    pub(super) bare: BareShard,
    pub(super) stuck: Topic,
}

pub(super) fn own(id: &str) -> MessageId {
    MessageId::own(id).unwrap()
}

// === impl Scene ===

impl Scene {
    pub(super) async fn new() -> Self {
        let clock = ClockShim::new();
        let server = RedisServer::private_with(RedisOptions::default().clock(&clock)).await;
        let Deployment { server, client, producer, admin } = Deployment::on(server, 1).await;
        let stuck = Topic::new("stuck").unwrap();
        // No lease runs out before a fault is planted.
        admin.topic(&stuck).set_policy(&Policy { lease: Some(LEASE), ..Policy::default() }).await.unwrap();
        let bare = BareShard::uncreated(&server, "dq", Arc::new(Scripts::published())).await;
        Self { server, clock, client, producer, admin, bare, stuck }
    }

    pub(super) async fn allow(&self, rule: &str) {
        let () = self.server.command(&["ACL", "SETUSER", "default", rule]).await;
    }

    pub(super) async fn refuses_writes(&self, refuses: bool) {
        let replicas = if refuses { "1" } else { "0" };
        let () = self.server.command(&["CONFIG", "SET", "min-replicas-to-write", replicas]).await;
    }

    pub(super) async fn put(&self, message: Message) {
        assert!(self.producer.put(message).await.unwrap().outcome.is_accepted());
    }

    pub(super) fn message(&self, id: &str) -> Message {
        Message::new(self.stuck.clone(), id.to_owned()).with_id(own(id))
    }

    pub(super) async fn reserve(&self) -> Vec<delayq::protocol::Reservation> {
        let request =
            ReserveRequest { topics: vec![self.stuck.clone()], most: 500, max_bytes: 0, lease: None };
        Holder::new(self.client.clone())
            .reserve(&[(SHARD, request.clone())])
            .await
            .remove(0)
            .unwrap()
            .messages
    }

    pub(super) async fn entries(&mut self, key: &str, id: &str) -> Vec<Vec<u8>> {
        let range: &[u8] = if key.starts_with("r:") { b"LRANGE" } else { b"ZRANGE" };
        let name = format!("~{key}");
        let all = self.bare.command(&[range, name.as_bytes(), b"0", b"-1"]).await;
        let all: Vec<Vec<u8>> = redis::from_redis_value(all).unwrap();
        all.into_iter().filter(|entry| lossy(entry).contains(id)).collect()
    }

    pub(super) async fn take_out(&mut self, key: &str, id: &str) {
        let entries = self.entries(key, id).await;
        assert!(!entries.is_empty(), "{id} is not in {key}");
        let name = format!("~{key}");
        for entry in entries {
            let words: Vec<&[u8]> = match key.starts_with("r:") {
                true => vec![b"LREM", name.as_bytes(), b"0", &entry],
                false => vec![b"ZREM", name.as_bytes(), &entry],
            };
            self.bare.command(&words).await;
        }
    }

    pub(super) async fn bucket_of(&mut self, id: &str) -> String {
        let shard = self.bare.snapshot().await;
        let found = shard.buckets.iter().find(|(_, _, entry, _)| lossy(entry).contains(id)).unwrap();
        format!("b:{}:{}", found.0, found.1)
    }

    pub(super) async fn delete(&mut self, key: &str) {
        self.bare.command(&[b"DEL", format!("~{key}").as_bytes()]).await;
    }

    /// Findings of an audit, without findings that follow from others.
    pub(super) async fn found(&self) -> (Audit, BTreeSet<(FindingKind, String)>) {
        let audit = self.admin.audit().run(|_| {}).await.unwrap();
        let found = audit.findings.iter().map(|found| {
            let id = found.id.trim_end_matches(|c: char| c == '-' || c.is_ascii_digit());
            (found.kind, format!("{} {id}", found.index))
        });
        let found = found.collect();
        (audit, found)
    }

    pub(super) async fn swept(&self, mends: bool) -> Vec<SweptFault> {
        swept_by(&mut self.admin.audit().sweep(1.0, mends)).await
    }

    pub(super) async fn drain(&mut self) -> BTreeSet<String> {
        let mut delivered = BTreeSet::new();
        let topics = vec![self.stuck.clone(), Topic::new("load").unwrap()];
        for step in 1..8_i64 {
            self.clock.set_offset_ms(step * 3_600_000);
            wait_until("what is due to be pumped", LONG, || async {
                let report = Owner::new(self.client.clone())
                    .pump(&[(SHARD, Some(1))], 500, None)
                    .await
                    .remove(0)
                    .unwrap();
                report.next_due.is_none_or(|due| due > report.now.millis())
            })
            .await;
            loop {
                let request = ReserveRequest { topics: topics.clone(), most: 500, max_bytes: 0, lease: None };
                let found = Holder::new(self.client.clone())
                    .reserve(&[(SHARD, request.clone())])
                    .await
                    .remove(0)
                    .unwrap()
                    .messages;
                if found.is_empty() {
                    break;
                }
                delivered.extend(found.iter().map(|found| found.id.to_string()));
                let receipts: Vec<_> = found.into_iter().map(|found| found.receipt).collect();
                for settled in Holder::new(self.client.clone()).ack(&receipts).await {
                    assert_eq!(settled.unwrap(), Settled::Delivered);
                }
            }
        }
        delivered
    }
}

pub(super) async fn swept_by(sweep: &mut Sweep) -> Vec<SweptFault> {
    let mut faults = Vec::new();
    while let Some(swept) = sweep.next().await.unwrap() {
        faults.extend(swept.faults);
    }
    faults
}
