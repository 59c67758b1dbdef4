//! Follows the plan: reads and then watches the plan, and publishes this member's shards.

use crate::backoff::Backoff;
use crate::drains::Drains;
use crate::etcd::{Change, Entry, EtcdError, Range, Watch, WatchRange};
use crate::membership::{Base, Leaving, SHORT_PAUSE, Session, Standing};
use crate::ownership::OwnershipView;
use crate::plan::Plan;
use crate::trust::Trust;
use std::future::{Future, pending};
use std::sync::Arc;
use tokio::sync::{mpsc, watch};
use tokio::time::sleep;

pub(crate) struct Follower {
    base: Base,
    views: ViewSender,
    rechecks: mpsc::UnboundedReceiver<()>,
    turns: watch::Receiver<u64>,
    missed: mpsc::UnboundedSender<i64>,
    backoff: Backoff,
}

pub(crate) struct ViewSender {
    pub(crate) view: watch::Sender<Arc<OwnershipView>>,
    pub(crate) standing: watch::Receiver<Standing>,
    pub(crate) leaving: Leaving,
}

enum Interrupt {
    Relist,
    /// The member has a new life, or none.
    SessionOver,
    Left,
}

// === impl Follower ===

impl Follower {
    pub(crate) fn new(
        base: Base,
        views: ViewSender,
        rechecks: mpsc::UnboundedReceiver<()>,
        missed: mpsc::UnboundedSender<i64>,
    ) -> Self {
        let turns = base.link.turns();
        Self { base, views, rechecks, turns, missed, backoff: Backoff::up_to(SHORT_PAUSE) }
    }

    pub(crate) async fn run(mut self) {
        loop {
            // Not marked as seen: `attend` shows the rest of the standing.
            let session = self.views.standing.borrow().session.clone();
            let interrupt = match session {
                Some(session) => self.follow(&session).await,
                None => self.views.attend(None, pending::<()>()).await.err(),
            };
            match interrupt {
                Some(Interrupt::Left) => return,
                // No plan names the next life yet; the consumer keeps pumping a shard until a new owner fences the
                // shard.
                Some(Interrupt::SessionOver) => self.views.show(|view| {
                    let drained = view.drained;
                    *view = OwnershipView { drained, ..OwnershipView::default() };
                }),
                Some(Interrupt::Relist) | None => {}
            }
        }
    }

    /// Returns when the plan must be read again.
    async fn follow(&mut self, session: &Session) -> Option<Interrupt> {
        let mut watch = match self.read_and_watch(session).await {
            Err(interrupt) => return Some(interrupt),
            Ok(Err(error)) => return self.pause_after(session, &error).await,
            Ok(Ok(watch)) => watch,
        };
        self.backoff.reset();
        loop {
            let next = async {
                tokio::select! {
                    biased;
                    // The watch may belong to a dead connection that has reported no error.
                    Ok(()) = self.turns.changed() => Err(Interrupt::Relist),
                    Some(()) = self.rechecks.recv() => Err(Interrupt::Relist),
                    changes = watch.next() => Ok(changes),
                }
            };
            match self.views.attend(Some(session), next).await {
                Err(interrupt) | Ok(Err(interrupt)) => return Some(interrupt),
                Ok(Ok(Ok(changes))) => changes.iter().for_each(|change| self.take_change(session, change)),
                Ok(Ok(Err(error))) => return self.pause_after(session, &error).await,
            }
        }
    }

    async fn pause_after(&mut self, session: &Session, error: &EtcdError) -> Option<Interrupt> {
        tracing::debug!(?error, "reading the plan again");
        if *error == EtcdError::LeaseGone {
            let _ = self.missed.send(session.lease);
        }
        if *error == EtcdError::Compacted {
            self.base.counters.count(|stats| stats.compacted += 1);
            return Some(Interrupt::Relist);
        }
        let pause = self.backoff.next();
        self.views.attend(Some(session), sleep(pause)).await.err()
    }

    async fn read_and_watch(&mut self, session: &Session) -> Result<Result<Watch, EtcdError>, Interrupt> {
        self.base.counters.count(|stats| stats.relists += 1);
        self.turns.borrow_and_update();
        let keys = &self.base.keys;
        let watched = [keys.member(&session.member), keys.plan(), keys.drains()];
        let ranges = watched.clone().map(Range::Key);
        let link = self.base.link.clone();
        let (read_at, read) = match self.views.attend(Some(session), link.read(&ranges)).await? {
            Ok(read) => read,
            Err(error) => return Ok(Err(error)),
        };
        self.take_reading(session, &read);
        let ranges = watched.map(WatchRange::key);
        self.views.attend(Some(session), link.watch(&ranges, read_at)).await
    }

    fn take_reading(&self, session: &Session, read: &[Vec<Entry>]) {
        let [registration, plan, drains] = read else { return };
        if !registration.first().is_some_and(|entry| session.wrote(entry)) {
            self.miss_registration(session);
        }
        self.take_drains(drains.first());
        self.take_plan(session, plan.first());
    }

    fn take_change(&self, session: &Session, change: &Change) {
        let (key, entry) = match change {
            Change::Put(entry) => (&entry.key, Some(entry)),
            Change::Deleted(key, _) => (key, None),
        };
        if *key == self.base.keys.plan().as_bytes() {
            self.take_plan(session, entry);
        } else if *key == self.base.keys.drains().as_bytes() {
            self.take_drains(entry);
        } else if !entry.is_some_and(|entry| session.wrote(entry)) {
            self.miss_registration(session);
        }
    }

    /// Without a readable plan, every member keeps the shards of the last one.
    fn take_plan(&self, session: &Session, entry: Option<&Entry>) {
        match entry.map(|entry| Plan::from_json(&entry.value)) {
            Some(Ok(plan)) => self.views.show(|view| {
                view.planned = plan.shards_of(&session.member);
                view.nobodys = plan.shards_of_nobody();
                (view.plan_version, view.members) = (plan.version, plan.members().len());
            }),
            Some(Err(error)) => {
                tracing::error!(%error, "cannot read the plan: keeping the owned shards");
            }
            None => self.views.show(|view| view.plan_version = 0),
        }
    }

    fn take_drains(&self, entry: Option<&Entry>) {
        match Drains::read(entry) {
            Ok(drains) => {
                let drained = drains.holds(&self.base.config.member.name);
                self.views.show(|view| view.drained = drained);
            }
            Err(error) => tracing::error!(error, "cannot read the drains in etcd"),
        }
    }

    /// The registration was deleted or replaced: no plan names this life of the member any more, though the
    /// lease may live.
    fn miss_registration(&self, session: &Session) {
        let _ = self.missed.send(session.lease);
    }
}

// === impl ViewSender ===

impl ViewSender {
    async fn attend<T>(
        &mut self,
        session: Option<&Session>,
        work: impl Future<Output = T>,
    ) -> Result<T, Interrupt> {
        tokio::pin!(work);
        loop {
            let standing = self.standing.borrow_and_update().clone();
            self.show(|_| ());
            if standing.trust == Trust::Left {
                return Err(Interrupt::Left);
            }
            if standing.session.as_deref().map(|s| &s.member) != session.map(|s| &s.member) {
                return Err(Interrupt::SessionOver);
            }
            tokio::select! {
                biased;
                _ = self.leaving.changed() => return Err(Interrupt::Left),
                Ok(()) = self.standing.changed() => {}
                done = &mut work => return Ok(done),
            }
        }
    }

    /// Also updates the member's trust.
    fn show(&self, change: impl FnOnce(&mut OwnershipView)) {
        self.view.send_if_modified(|shown| {
            let mut view = OwnershipView::clone(shown);
            change(&mut view);
            view.trust = self.standing.borrow().trust;
            let changed = **shown != view;
            if changed {
                *shown = Arc::new(view);
            }
            changed
        });
    }
}
