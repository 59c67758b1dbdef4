//! What etcd holds, and what of it changes: read whole, then watched, and passed to the book.

use super::{Follower, Interrupt, PATIENCE};
use crate::claim_book::ReadClaim;
use crate::drains::Drains;
use crate::etcd::{Change, Entry, EtcdError, Range, Watch, WatchRange};
use crate::membership::Session;
use crate::plan::Plan;
use delayq::protocol::ShardId;
use std::collections::BTreeMap;
use tokio::time::Instant;

// === impl Follower ===

impl Follower {
    pub(super) async fn read_and_watch(
        &mut self,
        session: &Session,
    ) -> Result<Result<Watch, EtcdError>, Interrupt> {
        self.base.counters.relists.add(1);
        self.turns.borrow_and_update();
        let keys = &self.base.keys;
        let (plan, drains, claims) = (keys.plan(), keys.drains(), keys.claims());
        let ranges = [
            Range::Key(keys.member(&session.member)),
            Range::Key(plan.clone()),
            Range::Prefix(claims.clone()),
            Range::Key(drains.clone()),
        ];
        let link = self.base.link.clone();
        let (read_at, read) = match self.attend(Some(session), async { link.read(&ranges).await }).await? {
            Ok(read) => read,
            Err(error) => return Ok(Err(error)),
        };
        self.take_reading(session, read_at, &read);
        let member = self.base.keys.member(&session.member);
        let ranges = [
            WatchRange { key: member, prefix: false, deletions_only: false },
            WatchRange { key: plan, prefix: false, deletions_only: false },
            WatchRange { key: claims, prefix: true, deletions_only: true },
            WatchRange { key: drains, prefix: false, deletions_only: false },
        ];
        self.attend(Some(session), async { link.watch(&ranges, read_at).await }).await
    }

    /// What etcd holds replaces what was believed.
    pub(super) fn take_reading(&mut self, session: &Session, read_at: i64, read: &[Vec<Entry>]) {
        let [registration, plan, claims, drains] = read else { return };
        if !registration.first().is_some_and(|entry| is_ours(session, entry)) {
            self.miss_registration(session);
        }
        self.take_drains(drains.first());
        self.book.requests_lost();
        self.outdated = None;
        match plan.first() {
            Some(entry) => self.take_plan(session, &entry.value, entry.mod_revision),
            None => {
                self.plan_revision = 0;
                self.book.no_plan();
            }
        }
        let read_claim = |entry: &Entry| {
            let mine = entry.lease == session.lease;
            let shard = self.base.keys.shard_of(&entry.key)?;
            Some((shard, ReadClaim { mine, created: entry.create_revision }))
        };
        // Under no lease, no member wrote it, and it is nobody's.
        let claims = claims.iter().filter(|entry| entry.lease != 0);
        let claims: BTreeMap<ShardId, ReadClaim> = claims.filter_map(read_claim).collect();
        let owned = self.book.owned();
        self.book.relisted(&claims);
        self.holders
            .read(read_at, claims.iter().filter(|(_, claim)| !claim.mine).map(|(&shard, _)| shard).collect());
        self.base.counters.claims_lost.add(owned.saturating_sub(self.book.owned()) as u64);
        for recheck in self.rechecks.drain(..) {
            let _ = recheck.send(());
        }
        self.publish();
    }

    pub(super) fn take_plan(&mut self, session: &Session, json: &[u8], revision: i64) {
        match Plan::from_json(json) {
            Ok(plan) => {
                self.plan_revision = revision;
                let mine = plan.shards_of(&session.member);
                let successor = |shard| plan.owner_of(shard).map(|member| member.name.clone());
                let held = |shard| self.holders.probably_held(shard, &session.member);
                self.book.plan(plan.version, &mine, successor, held);
                self.holders.follow(plan, revision);
                self.patient_until = self.book.presumes().then(|| Instant::now() + PATIENCE);
            }
            Err(error) => tracing::error!(%error, "the plan cannot be read; what is owned is kept"),
        }
    }

    fn take_drains(&mut self, entry: Option<&Entry>) {
        match Drains::read(entry) {
            Ok(drains) => self.drained = drains.holds(&self.base.config.member.name),
            Err(error) => tracing::error!(error, "the drains in etcd cannot be read"),
        }
    }

    pub(super) fn take_changes(&mut self, session: &Session, changes: &[Change]) {
        let owned = self.book.owned();
        for change in changes {
            match change {
                Change::Put(entry) if entry.key == self.base.keys.plan().as_bytes() => {
                    self.take_plan(session, &entry.value, entry.mod_revision);
                }
                Change::Put(entry) if self.is_registration(session, &entry.key) => {
                    if !is_ours(session, entry) {
                        self.miss_registration(session);
                    }
                }
                Change::Put(entry) if entry.key == self.base.keys.drains().as_bytes() => {
                    self.take_drains(Some(entry));
                }
                Change::Put(_) => {}
                Change::Deleted(key, at) => {
                    if self.is_registration(session, key) {
                        self.miss_registration(session);
                    } else if *key == self.base.keys.plan().as_bytes() {
                        self.book.no_plan();
                    } else if *key == self.base.keys.drains().as_bytes() {
                        self.take_drains(None);
                    } else if let Some(shard) = self.base.keys.shard_of(key) {
                        self.book.key_deleted(shard, *at);
                        self.holders.went(shard, *at);
                    }
                }
            }
        }
        self.base.counters.claims_lost.add(owned.saturating_sub(self.book.owned()) as u64);
    }

    fn is_registration(&self, session: &Session, key: &[u8]) -> bool {
        key == self.base.keys.member(&session.member).as_bytes()
    }

    /// etcd was emptied, or somebody removed or replaced the key: no plan counts on this life of the member any more,
    /// though its lease may live.
    fn miss_registration(&self, session: &Session) {
        let _ = self.missed.send(session.lease);
    }
}

/// Whether a registration is the one that this life wrote.
fn is_ours(session: &Session, entry: &Entry) -> bool {
    entry.lease == session.lease && entry.create_revision == session.rank
}
