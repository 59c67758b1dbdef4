//! What arrives while anything is waited for: the consumer, the member's standing, etcd; and what the consumer is shown.

use super::{Follower, Interrupt, YIELDS_AT_ONCE};
use crate::etcd::{Change, EtcdError, Watch};
use crate::inbox::News;
use crate::membership::{Session, until};
use crate::ownership::LossReason;
use crate::trust::Trust;
use std::future::Future;
use std::sync::Arc;

// === impl Follower ===

impl Follower {
    /// Waits for a change in etcd, or for news that make something due.
    pub(super) async fn attend_while_idle(
        &mut self,
        session: &Session,
        watch: &mut Watch,
    ) -> Result<Option<Result<Vec<Change>, EtcdError>>, Interrupt> {
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

    /// Waits for work to be done, and meanwhile receives the news; an interrupt leaves the work where it is.
    pub(super) async fn attend<T>(
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

    pub(super) fn take_news(&mut self, session: Option<&Session>, news: News) -> Result<(), Interrupt> {
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

    pub(super) fn take_standing(&mut self, session: Option<&Session>) -> Result<(), Interrupt> {
        let standing = self.inbox.standing.borrow_and_update().clone();
        if standing.trust == Trust::Left {
            return Err(Interrupt::Left);
        }
        if standing.session.as_deref().map(|s| &s.member) != session.map(|s| &s.member) {
            return Err(Interrupt::SessionOver);
        }
        self.publish();
        Ok(())
    }

    pub(super) fn drop_all(&mut self, reason: &LossReason) {
        self.base.counters.claims_lost.add(self.book.owned() as u64);
        self.book.drop_all(reason);
        self.holders.forget();
        self.publish();
    }

    pub(super) fn publish(&self) {
        let mut view = self.book.view(self.inbox.standing.borrow().trust);
        view.members = self.holders.members();
        view.drained = self.drained;
        self.board.send_if_modified(|shown| {
            let changed = **shown != view;
            if changed {
                *shown = Arc::new(view);
            }
            changed
        });
    }
}
