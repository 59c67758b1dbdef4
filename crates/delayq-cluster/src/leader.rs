//! The leader: knows the members, computes a plan for each change, and writes the plan while this member still leads.

use crate::backoff::Backoff;
use crate::drains::Drains;
use crate::etcd::{Change, Entry, EtcdError, Fence, Range, WatchRange};
use crate::keys::MemberId;
use crate::membership::{Base, LONGEST_PAUSE, Session, until};
use crate::plan::{Plan, PlanError};
use crate::planner::{self, Candidate};
use crate::quiet::Quiet;
use crate::registration::Registration;
use delayq::protocol::ShardRanges;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::time::Instant;

/// How long the members' reports of shards out of their reach must stay unchanged before shards move. Members notice a
/// common fault, or its end, at different moments.
const HINDRANCE_SETTLES: Duration = Duration::from_secs(1);
/// Maximum time that the plan waits for the reports to settle.
const HINDRANCE_WAITS: Duration = Duration::from_secs(2);

pub(crate) struct Leader {
    base: Base,
    session: Session,
    /// The members, each with the shards out of its reach that the plan takes into account.
    members: BTreeMap<MemberId, Registration>,
    /// Newer reports of shards out of reach, and the debounce until the plan takes the reports into account.
    unsettled: BTreeMap<MemberId, ShardRanges>,
    settling: Quiet,
    /// An unreadable document leaves the drains unchanged.
    drains: Drains,
    plan: Option<Plan>,
    plan_revision: i64,
    quiet: Quiet,
    /// The plan in etcd differs from `plan`.
    unwritten: bool,
    /// The pauses while etcd takes no writes, and the time of the next write.
    refused: Backoff,
    again: Option<Instant>,
}

/// True until dropped.
struct Leading(Arc<AtomicBool>);

// === impl Leader ===

impl Leader {
    pub(crate) fn new(base: Base, session: Session) -> Self {
        let quiet = Quiet::new(base.config.plan_quiet, base.config.plan_at_most);
        let members = BTreeMap::new();
        Self {
            base,
            session,
            members,
            unsettled: BTreeMap::new(),
            settling: Quiet::new(HINDRANCE_SETTLES, HINDRANCE_WAITS),
            drains: Drains::default(),
            plan: None,
            plan_revision: 0,
            quiet,
            unwritten: false,
            refused: Backoff::up_to(LONGEST_PAUSE),
            again: None,
        }
    }

    /// Returns `Ok` when overtaken.
    pub(crate) async fn lead(mut self) -> Result<(), EtcdError> {
        let keys = &self.base.keys;
        let (members, plan, drains) = (keys.members(), keys.plan(), keys.drains());
        let ranges = [Range::Prefix(members.clone()), Range::Key(plan.clone()), Range::Key(drains.clone())];
        let (read_at, read) = self.base.link.read(&ranges).await?;
        read.iter().flatten().for_each(|entry| self.take_entry(entry));
        if !self.members.contains_key(&self.session.member) {
            return Err(EtcdError::LeaseGone);
        }
        tracing::info!(member = %self.session.member, members = self.members.len(), "leads");
        let _leading = Leading::begin(self.base.leads.clone());
        let watched = [members, plan, drains].map(|key| WatchRange { prefix: key.ends_with('/'), key });
        let mut watch = self.base.link.watch(&watched, read_at).await?;
        self.quiet.changed(Instant::now());
        loop {
            tokio::select! {
                changes = watch.next() => self.take_changes(&changes?),
                () = until(self.settling.due()) => self.settle_hindered(),
                () = until(self.again) => {
                    self.again = None;
                    self.note_change();
                }
                () = until(self.quiet.due()) => {
                    self.quiet.done();
                    if !self.publish_or_wait().await? {
                        self.base.counters.count(|stats| stats.plans_overtaken += 1);
                        tracing::warn!(member = %self.session.member, "no longer leads");
                        return Ok(());
                    }
                }
            }
        }
    }

    fn take_changes(&mut self, changes: &[Change]) {
        for change in changes {
            match change {
                Change::Put(entry) => self.take_entry(entry),
                Change::Deleted(key, _) => {
                    if let Some(member) = self.base.keys.member_of(key) {
                        self.members.remove(&member);
                    } else if self.is_drains(key) {
                        self.drains = Drains::default();
                    } else {
                        // The deleted plan is still known here, and is written again.
                        (self.plan_revision, self.unwritten) = (0, true);
                    }
                    self.note_change();
                }
            }
        }
    }

    fn take_entry(&mut self, entry: &Entry) {
        if self.is_drains(&entry.key) {
            return self.take_drains(entry);
        }
        let Some(member) = self.base.keys.member_of(&entry.key) else { return self.take_plan(entry) };
        if entry.lease == 0 {
            tracing::warn!(%member, "ignoring a registration without a lease: no member wrote it");
            return self.leave_out(&member);
        }
        match serde_json::from_slice::<Registration>(&entry.value) {
            Ok(registration) => self.take_registration(member, registration),
            // An unreadable member gets no shards, but the other members still do.
            Err(error) => {
                tracing::error!(%member, %error, "cannot read a registration: leaving it out of the plan");
                self.leave_out(&member);
            }
        }
    }

    /// Leaves a member out of the plan, even if the member had shards until another writer replaced its registration.
    fn leave_out(&mut self, member: &MemberId) {
        if self.members.remove(member).is_some() {
            self.note_change();
        }
    }

    fn take_registration(&mut self, member: MemberId, mut now: Registration) {
        if let Some(before) = self.members.get(&member) {
            let said = std::mem::replace(&mut now.hindered, before.hindered.clone());
            if said == now.hindered {
                self.unsettled.remove(&member);
            } else if self.unsettled.get(&member) != Some(&said) {
                self.unsettled.insert(member.clone(), said);
                self.settling.changed(Instant::now());
            }
            if now == *before {
                return;
            }
        }
        self.members.insert(member, now);
        self.note_change();
    }

    fn settle_hindered(&mut self) {
        self.settling.done();
        for (id, hindered) in std::mem::take(&mut self.unsettled) {
            if let Some(member) = self.members.get_mut(&id) {
                member.hindered = hindered;
            }
        }
        self.note_change();
    }

    fn is_drains(&self, key: &[u8]) -> bool {
        key == self.base.keys.drains().as_bytes()
    }

    fn take_drains(&mut self, entry: &Entry) {
        match Drains::read(Some(entry)) {
            Ok(drains) if drains == self.drains => {}
            Ok(drains) => {
                self.drains = drains;
                self.note_change();
            }
            Err(error) => {
                let key = self.base.keys.drains();
                tracing::error!(error, key, "cannot read the drains in etcd: keeping the known ones");
            }
        }
    }

    fn take_plan(&mut self, entry: &Entry) {
        if entry.mod_revision <= self.plan_revision {
            return;
        }
        self.plan_revision = entry.mod_revision;
        match Plan::from_json(&entry.value) {
            Ok(plan) if self.plan.as_ref() == Some(&plan) => {}
            Ok(plan) => {
                self.plan = Some(plan);
                self.note_change();
            }
            // A newer program may have led before: the shards of an unknown plan cannot be kept in place.
            Err(error @ (PlanError::Newer(_) | PlanError::Damaged(_))) => {
                tracing::error!(%error, "cannot read the plan in etcd: replacing it");
                self.unwritten = true;
                self.note_change();
            }
        }
    }

    fn note_change(&mut self) {
        self.quiet.changed(Instant::now());
    }

    /// If etcd takes no writes, this member leads on: the leader checks every shard.
    async fn publish_or_wait(&mut self) -> Result<bool, EtcdError> {
        match self.publish().await {
            Err(EtcdError::Exhausted(_)) => {
                self.again = Some(Instant::now() + self.refused.next());
                Ok(true)
            }
            published => {
                self.refused.reset();
                published
            }
        }
    }

    /// True if this member still leads.
    async fn publish(&mut self) -> Result<bool, EtcdError> {
        let candidate = |(id, member): (&MemberId, &Registration)| {
            member.candidate(id.clone(), self.drains.holds(&member.name))
        };
        let candidates: Vec<Candidate> = self.members.iter().map(candidate).collect();
        let Some(shards) = self.members.values().map(|member| member.shards).max() else { return Ok(false) };
        let next = planner::compute(shards, &candidates, self.plan.as_ref(), &self.session.member);
        if !self.unwritten && self.plan.as_ref() == Some(&next) {
            return Ok(true);
        }
        let plan_key = self.base.keys.plan();
        let own_key = self.base.keys.member(&self.session.member);
        let fences = [
            Fence::Created(own_key, self.session.rank),
            Fence::Written(plan_key.clone(), self.plan_revision),
        ];
        let Some(revision) = self.base.link.write(&fences, &plan_key, next.to_json(), 0).await? else {
            return Ok(false);
        };
        tracing::info!(version = next.version, members = next.members().len(), "wrote the plan");
        self.base.counters.count(|stats| stats.plans_published += 1);
        (self.plan, self.plan_revision) = (Some(next), revision);
        self.unwritten = false;
        Ok(true)
    }
}

// === impl Leading ===

impl Leading {
    fn begin(leads: Arc<AtomicBool>) -> Self {
        leads.store(true, Ordering::Relaxed);
        Self(leads)
    }
}

impl Drop for Leading {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}
