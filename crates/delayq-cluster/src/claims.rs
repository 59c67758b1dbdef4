//! Following the plan: claims what is meant for this member, gives up what is not, tells the consumer.

use crate::backoff::Backoff;
use crate::claim_book::{ClaimBook, ReadClaim};
use crate::etcd::{Change, ClaimAnswer, Entry, Fault, Fence, Range, Watch, WatchRange};
use crate::holders::Holders;
use crate::inbox::{Inbox, News};
use crate::membership::{Base, LONGEST_PAUSE, Session, until};
use crate::ownership::{LossReason, OwnershipView};
use crate::plan::Plan;
use crate::registration::Claim;
use crate::trust::Trust;
use delayq_core::ShardId;
use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep};

/// Keys in one transaction: etcd takes 128 operations, and each key costs one inside another.
const BATCH: usize = 100;
/// Shards being handed over at once. Measured where a sync of etcd's disk takes 2.4 ms: handing 256 over all at once, a
/// shard stood still for up to 73 ms; 32 at once, for up to 27 ms, and all of them took as long as before.
const YIELDS_AT_ONCE: usize = 32;
/// How long no hand-over may get through before others are started beside them: a consumer that waits for a dead Redis
/// to stop some shards must not keep back the rest.
const STALL: Duration = Duration::from_millis(50);
/// How long a shard that another is believed to hold is awaited before it is tried all the same.
const PATIENCE: Duration = Duration::from_millis(500);

/// The task that follows the plan.
pub(crate) struct Follower {
    base: Base,
    inbox: Inbox,
    turns: watch::Receiver<u64>,
    missed: mpsc::UnboundedSender<i64>,
    board: watch::Sender<Arc<OwnershipView>>,
    book: ClaimBook,
    holders: Holders,
    /// Until when shards are awaited by belief only.
    patient_until: Option<Instant>,
    /// How many shards may be on their way to others, and when that is too few because none of them gets there.
    yields_at_once: usize,
    stalled_at: Option<Instant>,
    /// The revision of the plan that is followed: claims made for an older one are refused.
    plan_revision: i64,
    /// The plan whose claims were refused: a newer one is under way.
    outdated: Option<i64>,
    rechecks: Vec<oneshot::Sender<()>>,
    backoff: Backoff,
}

/// Why what was being done is left.
enum Interrupt {
    /// Everything must be read anew.
    Relist,
    /// Another life of the member, or none.
    SessionOver,
    Left,
}

// === impl Follower ===

impl Follower {
    pub(crate) fn new(
        base: Base,
        inbox: Inbox,
        missed: mpsc::UnboundedSender<i64>,
        board: watch::Sender<Arc<OwnershipView>>,
    ) -> Self {
        let turns = base.link.turns();
        Self {
            base,
            inbox,
            turns,
            missed,
            board,
            book: ClaimBook::default(),
            holders: Holders::default(),
            patient_until: None,
            yields_at_once: YIELDS_AT_ONCE,
            stalled_at: None,
            plan_revision: 0,
            outdated: None,
            rechecks: Vec::new(),
            backoff: Backoff::up_to(LONGEST_PAUSE),
        }
    }

    /// Follows the plan until the member leaves.
    pub(crate) async fn run(mut self) {
        loop {
            // Not marked as seen: whatever else the standing says is heard as news, and acted on there.
            let session = self.inbox.standing.borrow().session.clone();
            let interrupt = match session {
                Some(session) => self.follow(&session).await,
                None => self.attend(None, std::future::pending::<()>()).await.err(),
            };
            match interrupt {
                Some(Interrupt::Left) => break,
                Some(Interrupt::SessionOver) => self.drop_all(&LossReason::LeaseLost),
                Some(Interrupt::Relist) | None => {}
            }
        }
        self.drop_all(&LossReason::Left);
    }

    /// One reading of everything, and then what changes, until something makes a new reading necessary.
    async fn follow(&mut self, session: &Session) -> Option<Interrupt> {
        match self.read_and_watch(session).await {
            Err(interrupt) => Some(interrupt),
            Ok(Err(fault)) => self.pause_after(session, &fault).await,
            Ok(Ok(mut watch)) => loop {
                match self.step(session, &mut watch).await {
                    Err(interrupt) => return Some(interrupt),
                    Ok(Err(fault)) => return self.pause_after(session, &fault).await,
                    Ok(Ok(())) => {}
                }
            },
        }
    }

    async fn pause_after(&mut self, session: &Session, fault: &Fault) -> Option<Interrupt> {
        tracing::debug!(?fault, "the plan is read anew");
        if *fault == Fault::LeaseGone {
            let _ = self.missed.send(session.lease);
        }
        if *fault == Fault::Compacted {
            self.base.counters.compacted.add(1);
            return Some(Interrupt::Relist);
        }
        let pause = self.backoff.next();
        self.attend(Some(session), sleep(pause)).await.err()
    }

    async fn read_and_watch(&mut self, session: &Session) -> Result<Result<Watch, Fault>, Interrupt> {
        self.base.counters.relists.add(1);
        self.turns.borrow_and_update();
        let keys = &self.base.keys;
        let (plan, claims) = (keys.plan(), keys.claims());
        let ranges = [
            Range::Key(keys.member(&session.member)),
            Range::Key(plan.clone()),
            Range::Prefix(claims.clone()),
        ];
        let link = self.base.link.clone();
        let (read_at, read) = match self.attend(Some(session), async { link.read(&ranges).await }).await? {
            Ok(read) => read,
            Err(fault) => return Ok(Err(fault)),
        };
        self.take_reading(session, read_at, &read);
        self.backoff.reset();
        let ranges = [
            WatchRange { key: plan, prefix: false, deletions_only: false },
            WatchRange { key: claims, prefix: true, deletions_only: true },
        ];
        self.attend(Some(session), async { link.watch(&ranges, read_at).await }).await
    }

    /// What etcd holds replaces what was believed.
    fn take_reading(&mut self, session: &Session, read_at: i64, read: &[Vec<Entry>]) {
        let [registration, plan, claims] = read else { return };
        if registration.is_empty() {
            // etcd knows nothing of us: it was emptied, or somebody removed the key.
            let _ = self.missed.send(session.lease);
        }
        self.book.requests_lost();
        self.outdated = None;
        match plan.first() {
            Some(entry) => self.take_plan(session, &entry.value, entry.mod_revision),
            None => self.plan_revision = 0,
        }
        let read_claim = |entry: &Entry| {
            let mine = entry.lease == session.lease;
            let shard = self.base.keys.shard_of(&entry.key)?;
            Some((shard, ReadClaim { mine, created: entry.create_revision }))
        };
        let claims: BTreeMap<ShardId, ReadClaim> = claims.iter().filter_map(read_claim).collect();
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

    fn take_plan(&mut self, session: &Session, json: &[u8], revision: i64) {
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

    /// Does what is due, or waits for the next change.
    async fn step(&mut self, session: &Session, watch: &mut Watch) -> Result<Result<(), Fault>, Interrupt> {
        self.yield_some();
        self.publish();
        let stopped = self.book.start_deletes(BATCH);
        if !stopped.is_empty() {
            return self.give_back(session, stopped).await;
        }
        let outdated = self.outdated == Some(self.plan_revision);
        if !outdated && self.inbox.standing.borrow().trust.may_claim(Instant::now()) {
            let wanted = self.book.start_claims(BATCH);
            if !wanted.is_empty() {
                return self.claim(session, wanted).await;
            }
        }
        match self.attend_while_idle(session, watch).await? {
            Some(Ok(changes)) => {
                self.take_changes(session, &changes);
                // What has arrived meanwhile too: claimed together, a hand-over costs fewer requests.
                while let Some(more) = watch.ready().await {
                    match more {
                        Ok(changes) => self.take_changes(session, &changes),
                        Err(fault) => return Ok(Err(fault)),
                    }
                }
                Ok(Ok(()))
            }
            Some(Err(fault)) => Ok(Err(fault)),
            None => Ok(Ok(())),
        }
    }

    /// Starts hand-overs; the next ones wait until these are through, but not for those that stand still.
    fn yield_some(&mut self) {
        self.book.start_yields(self.yields_at_once);
        if self.book.has_queue() {
            self.stalled_at = self.stalled_at.or_else(|| Some(Instant::now() + STALL));
        } else {
            (self.yields_at_once, self.stalled_at) = (YIELDS_AT_ONCE, None);
        }
    }

    async fn give_back(
        &mut self,
        session: &Session,
        stopped: Vec<ShardId>,
    ) -> Result<Result<(), Fault>, Interrupt> {
        let keys: Vec<String> = stopped.iter().map(|&shard| self.base.keys.claim(shard)).collect();
        let (link, lease) = (self.base.link.clone(), session.lease);
        if let Err(fault) = self.attend(Some(session), async { link.delete_each(&keys, lease).await }).await?
        {
            return Ok(Err(fault));
        }
        self.base.counters.claims_released.add(stopped.len() as u64);
        self.stalled_at = None;
        stopped.into_iter().for_each(|shard| self.book.deleted(shard));
        Ok(Ok(()))
    }

    async fn claim(
        &mut self,
        session: &Session,
        wanted: Vec<ShardId>,
    ) -> Result<Result<(), Fault>, Interrupt> {
        let keys: Vec<String> = wanted.iter().map(|&shard| self.base.keys.claim(shard)).collect();
        let name = self.base.config.member.name.clone();
        let document = Claim { member: session.member.clone(), name }.to_json();
        let fence = Fence::Written(self.base.keys.plan(), self.plan_revision);
        let (link, lease) = (self.base.link.clone(), session.lease);
        let request = async { link.create_each(&fence, &keys, &document, lease).await };
        let answers = match self.attend(Some(session), request).await? {
            Ok(answers) => answers,
            Err(fault) => return Ok(Err(fault)),
        };
        let Some(answers) = answers else {
            wanted.into_iter().for_each(|shard| self.book.claim_not_made(shard));
            self.outdated = Some(self.plan_revision);
            return Ok(Ok(()));
        };
        for (shard, answer) in wanted.into_iter().zip(answers) {
            match answer {
                ClaimAnswer::Won(since) => {
                    self.base.counters.claims_won.add(1);
                    self.book.claim_won(shard, since);
                }
                ClaimAnswer::Held(at) => {
                    self.base.counters.claims_held.add(1);
                    self.book.claim_held(shard, at);
                }
            }
        }
        Ok(Ok(()))
    }

    fn take_changes(&mut self, session: &Session, changes: &[Change]) {
        let owned = self.book.owned();
        for change in changes {
            match change {
                Change::Put(entry) if entry.key == self.base.keys.plan().as_bytes() => {
                    self.take_plan(session, &entry.value, entry.mod_revision);
                }
                Change::Put(_) => {}
                Change::Deleted(key, at) => {
                    if let Some(shard) = self.base.keys.shard_of(key) {
                        self.book.key_deleted(shard, *at);
                        self.holders.went(shard, *at);
                    }
                }
            }
        }
        self.base.counters.claims_lost.add(owned.saturating_sub(self.book.owned()) as u64);
    }

    /// Waits for a change in etcd, or for news that make something due.
    async fn attend_while_idle(
        &mut self,
        session: &Session,
        watch: &mut Watch,
    ) -> Result<Option<Result<Vec<Change>, Fault>>, Interrupt> {
        tokio::select! {
            biased;
            news = self.inbox.next() => self.take_news(Some(session), news).map(|()| None),
            // The connection was given up: this watch may be on one that is dead and does not know it.
            Ok(()) = self.turns.changed() => Err(Interrupt::Relist),
            changes = watch.next() => Ok(Some(changes)),
            () = until(self.patient_until) => {
                self.patient_until = None;
                self.book.doubt();
                Ok(None)
            }
            () = until(self.stalled_at) => {
                self.yields_at_once += YIELDS_AT_ONCE;
                self.stalled_at = None;
                Ok(None)
            }
        }
    }

    /// Waits for work to be done, and meanwhile hears the news; an interrupt leaves the work where it is.
    async fn attend<T>(
        &mut self,
        session: Option<&Session>,
        work: impl Future<Output = T>,
    ) -> Result<T, Interrupt> {
        tokio::pin!(work);
        loop {
            tokio::select! {
                biased;
                news = self.inbox.next() => self.take_news(session, news)?,
                done = &mut work => return Ok(done),
            }
        }
    }

    fn take_news(&mut self, session: Option<&Session>, news: News) -> Result<(), Interrupt> {
        match news {
            News::Leave => return Err(Interrupt::Left),
            News::Standing => self.take_standing(session)?,
            News::Confirmed(stopped) => stopped.iter().for_each(|lost| self.book.confirmed(lost)),
            News::Recheck(answer) => {
                self.rechecks.push(answer);
                return Err(Interrupt::Relist);
            }
            News::DrainsAlone => {
                tracing::warn!(
                    "draining, and etcd does not answer: every shard is given up without a successor"
                );
                self.inbox.drained_alone = true;
                self.book.yield_all();
            }
        }
        self.publish();
        Ok(())
    }

    fn take_standing(&mut self, session: Option<&Session>) -> Result<(), Interrupt> {
        let standing = self.inbox.standing.borrow_and_update().clone();
        if standing.trust == Trust::Left {
            return Err(Interrupt::Left);
        }
        if standing.session.as_deref().map(|s| &s.member) != session.map(|s| &s.member) {
            return Err(Interrupt::SessionOver);
        }
        let before = self.board.borrow().trust;
        let degraded = matches!(standing.trust, Trust::Degraded { .. });
        if self.base.config.strict && degraded {
            self.book.suspend();
        }
        self.publish();
        let back = matches!(before, Trust::Degraded { .. }) && !degraded;
        // What was suspended comes back only by reading whose the keys are.
        if self.base.config.strict && back { Err(Interrupt::Relist) } else { Ok(()) }
    }

    fn drop_all(&mut self, reason: &LossReason) {
        self.base.counters.claims_lost.add(self.book.owned() as u64);
        self.book.drop_all(reason);
        self.holders.forget();
        self.publish();
    }

    fn publish(&self) {
        let view = self.book.view(self.inbox.standing.borrow().trust);
        self.board.send_if_modified(|shown| {
            let changed = **shown != view;
            if changed {
                *shown = Arc::new(view);
            }
            changed
        });
    }
}
