//! What a member owns, as its consumer sees it: a view that is replaced whole, and the changes between two views.

use crate::trust::Trust;
use delayq::protocol::ShardId;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tokio::sync::{mpsc, watch};

/// Counts the claims of one process, so that a shard lost and won again is not taken for one that stayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClaimNumber(pub(crate) u64);

/// Everything a member owns at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnershipView {
    /// The shards to work on.
    pub owned: BTreeMap<ShardId, ClaimNumber>,
    /// Shards to stop, and why; those of a hand-over stay here until the consumer confirmed and the claim is gone.
    pub parted: BTreeMap<ShardId, Lost>,
    /// Shards planned for this member that another still holds: worth preparing for.
    pub coming: BTreeSet<ShardId>,
    /// How many shards are being claimed or given back at this moment.
    pub unsettled: usize,
    /// How many shards the plan means for this member, whether it has them yet or not.
    pub planned: usize,
    /// How many members the plan means shards for; 0: there is no plan, or none was seen yet.
    pub members: usize,
    /// The plan's version that this view follows; 0: there is no plan, or none was seen yet.
    pub plan_version: u64,
    /// Whether an operator keeps this member without shards.
    pub drained: bool,
    /// How the member stands with etcd when the view was made.
    pub trust: Trust,
}

/// A shard that is to be stopped. Give it to [`Ownership::confirm`] once it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lost {
    /// The shard.
    pub shard: ShardId,
    /// Why.
    pub reason: LossReason,
    pub(crate) claim: ClaimNumber,
}

/// Why a shard is lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LossReason {
    /// The plan gives it to another. Nobody else works on it before it is confirmed.
    HandOver {
        /// The name of the member that is waiting for it; none when nobody can take it.
        to: Option<String>,
    },
    /// etcd said that the lease is gone: another may own the shard already. Stop at once.
    LeaseLost,
    /// The claim's key is gone or somebody else's, though the lease lives. Stop at once.
    ClaimGone,
    /// The member left.
    Left,
}

/// What changed since the last change; `lost` comes before `gained`, and a shard that was lost and won again is in both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnershipChange {
    /// Shards to start, each after taking a new epoch.
    pub gained: Vec<ShardId>,
    /// Shards to stop.
    pub lost: Vec<Lost>,
    /// Shards that another is about to hand over to this member.
    pub coming: Vec<ShardId>,
    /// How the member stands with etcd.
    pub trust: Trust,
}

/// A consumer's end: the changes of what it owns.
#[derive(Debug)]
pub struct Ownership {
    view: watch::Receiver<Arc<OwnershipView>>,
    confirm: mpsc::UnboundedSender<Vec<Lost>>,
    seen: BTreeMap<ShardId, ClaimNumber>,
    /// The last claim of each shard that the consumer was ever notified of.
    begun: BTreeMap<ShardId, ClaimNumber>,
    notified: Option<(Trust, BTreeSet<ShardId>)>,
    ended: bool,
}

// === impl OwnershipView ===

impl OwnershipView {
    /// Whether having no shard is as it should be: a plan is followed, and it means every shard for others. A member
    /// with no shard that is no spare does not do its work.
    pub fn is_spare(&self) -> bool {
        self.plan_version > 0 && self.planned == 0
    }
}

// === impl LossReason ===

impl LossReason {
    /// Whether somebody waits for [`Ownership::confirm`]. Confirming another loss does no harm.
    pub const fn awaits_confirmation(&self) -> bool {
        matches!(self, Self::HandOver { .. })
    }
}

// === impl Ownership ===

impl Ownership {
    pub(crate) fn new(
        view: watch::Receiver<Arc<OwnershipView>>,
        confirm: mpsc::UnboundedSender<Vec<Lost>>,
    ) -> Self {
        Self { view, confirm, seen: BTreeMap::new(), begun: BTreeMap::new(), notified: None, ended: false }
    }

    /// Waits until what is owned, what is coming or the trust differs from the last change; none once the member left
    /// and every loss was returned: a consumer that still works on a shard then stops. The first call returns the start.
    /// Cancel safe: nothing is lost, and changes in between are
    /// merged, so a slow consumer costs no memory.
    pub async fn next(&mut self) -> Option<OwnershipChange> {
        loop {
            let view = self.view.borrow_and_update().clone();
            self.confirm_untold(&view);
            if let Some(change) = self.change_to(&view) {
                return Some(change);
            }
            if self.ended {
                return None;
            }
            if self.view.changed().await.is_err() {
                self.ended = true;
            }
        }
    }

    /// Says that these shards are stopped; only then are their claims given back. Losses that nobody waits for, and
    /// repeats, are ignored.
    pub fn confirm<'a>(&self, stopped: impl IntoIterator<Item = &'a Lost>) {
        let stopped: Vec<Lost> = stopped.into_iter().cloned().collect();
        if !stopped.is_empty() {
            // A member that has left holds no claim: there is nothing to give back.
            let _ = self.confirm.send(stopped);
        }
    }

    /// What is owned now, whatever was notified.
    pub fn view(&self) -> Arc<OwnershipView> {
        self.view.borrow().clone()
    }

    /// Changes are merged: what was won and is to be handed over before the consumer saw it was never begun, and nobody else
    /// would ever confirm that it is stopped.
    fn confirm_untold(&self, view: &OwnershipView) {
        let untold = |lost: &&Lost| {
            lost.reason.awaits_confirmation() && self.begun.get(&lost.shard) != Some(&lost.claim)
        };
        self.confirm(view.parted.values().filter(untold));
    }

    fn change_to(&mut self, view: &OwnershipView) -> Option<OwnershipChange> {
        let lost = losses(&self.seen, view);
        let gained: Vec<ShardId> = view
            .owned
            .iter()
            .filter(|(shard, claim)| self.seen.get(shard) != Some(claim))
            .map(|(shard, _)| *shard)
            .collect();
        let quiet = self
            .notified
            .as_ref()
            .is_some_and(|(trust, coming)| trust.same_kind(&view.trust) && *coming == view.coming);
        if quiet && lost.is_empty() && gained.is_empty() {
            return None;
        }
        self.seen.clone_from(&view.owned);
        self.begun.extend(&view.owned);
        self.notified = Some((view.trust, view.coming.clone()));
        let coming = view.coming.iter().copied().collect();
        Some(OwnershipChange { gained, lost, coming, trust: view.trust })
    }
}

fn losses(seen: &BTreeMap<ShardId, ClaimNumber>, view: &OwnershipView) -> Vec<Lost> {
    seen.iter()
        .filter(|(shard, claim)| view.owned.get(shard) != Some(claim))
        .map(|(&shard, &claim)| match view.parted.get(&shard) {
            Some(parted) if parted.claim == claim => parted.clone(),
            // Lost, won and perhaps lost again between two calls: the claim it knows is long gone.
            _ => Lost { shard, reason: LossReason::ClaimGone, claim },
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(owned: &[(u16, u64)]) -> OwnershipView {
        let owned = owned.iter().map(|&(s, c)| (ShardId::new(s), ClaimNumber(c))).collect();
        OwnershipView { owned, ..OwnershipView::default() }
    }

    fn pair(first: OwnershipView) -> (watch::Sender<Arc<OwnershipView>>, Ownership) {
        let (sender, _, ownership) = three(first);
        (sender, ownership)
    }

    type Ends = (watch::Sender<Arc<OwnershipView>>, mpsc::UnboundedReceiver<Vec<Lost>>, Ownership);

    fn three(first: OwnershipView) -> Ends {
        let (sender, receiver) = watch::channel(Arc::new(first));
        let (confirm, confirmed) = mpsc::unbounded_channel();
        (sender, confirmed, Ownership::new(receiver, confirm))
    }

    /// Polls once, and expects no change.
    async fn tells_nothing(ownership: &mut Ownership) {
        tokio::select! {
            biased;
            change = ownership.next() => panic!("{change:?}"),
            () = std::future::ready(()) => {}
        }
    }

    fn yielding(shard: u16, claim: u64) -> OwnershipView {
        let reason = LossReason::HandOver { to: None };
        let lost = Lost { shard: ShardId::new(shard), reason, claim: ClaimNumber(claim) };
        OwnershipView { parted: [(lost.shard, lost)].into(), ..OwnershipView::default() }
    }

    #[tokio::test]
    async fn a_shard_won_and_to_be_handed_over_unseen_is_confirmed_without_the_consumer() {
        let (sender, mut confirmed, mut ownership) = three(view(&[]));
        ownership.next().await.unwrap();
        sender.send_replace(Arc::new(view(&[(1, 1)])));
        sender.send_replace(Arc::new(yielding(1, 1)));
        tells_nothing(&mut ownership).await;
        assert_eq!(confirmed.recv().await.unwrap()[0].claim, ClaimNumber(1));
    }

    #[tokio::test]
    async fn a_shard_that_the_consumer_was_told_of_is_confirmed_by_the_consumer_alone() {
        let (sender, mut confirmed, mut ownership) = three(view(&[(1, 1)]));
        ownership.next().await.unwrap();
        sender.send_replace(Arc::new(yielding(1, 1)));
        let lost = ownership.next().await.unwrap().lost;
        // Another change, while it stops the shard.
        sender.send_replace(Arc::new(OwnershipView { plan_version: 2, ..yielding(1, 1) }));
        tells_nothing(&mut ownership).await;
        assert!(confirmed.try_recv().is_err());
        ownership.confirm(&lost);
        assert_eq!(confirmed.recv().await.unwrap(), lost);
    }

    #[tokio::test]
    async fn the_first_change_tells_the_start() {
        let (_sender, mut ownership) = pair(view(&[(1, 1), (2, 2)]));
        let change = ownership.next().await.unwrap();
        assert_eq!(change.gained, [ShardId::new(1), ShardId::new(2)]);
        assert!(change.lost.is_empty());
    }

    #[tokio::test]
    async fn a_shard_lost_and_won_again_unseen_is_told_as_both() {
        let (sender, mut ownership) = pair(view(&[(1, 1)]));
        ownership.next().await.unwrap();
        sender.send_replace(Arc::new(view(&[])));
        sender.send_replace(Arc::new(view(&[(1, 7)])));
        let change = ownership.next().await.unwrap();
        assert_eq!(change.gained, [ShardId::new(1)]);
        assert_eq!(change.lost.len(), 1);
        assert_eq!(change.lost[0].reason, LossReason::ClaimGone);
    }

    #[tokio::test]
    async fn the_stream_ends_after_the_last_losses() {
        let (sender, mut ownership) = pair(view(&[(1, 1)]));
        ownership.next().await.unwrap();
        let mut last = view(&[]);
        let lost = Lost { shard: ShardId::new(1), reason: LossReason::Left, claim: ClaimNumber(1) };
        last.parted.insert(lost.shard, lost.clone());
        sender.send_replace(Arc::new(last));
        drop(sender);
        assert_eq!(ownership.next().await.unwrap().lost, [lost]);
        assert_eq!(ownership.next().await, None);
    }
}
