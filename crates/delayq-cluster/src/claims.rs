//! Following the plan: claims what is meant for this member, gives up what is not, notifies the consumer.

use crate::backoff::Backoff;
use crate::claim_book::ClaimBook;
use crate::etcd::{ClaimAnswer, EtcdError, Fence, Watch};
use crate::holders::Holders;
use crate::inbox::Inbox;
use crate::membership::{Base, LONGEST_PAUSE, SHORT_PAUSE, Session};
use crate::ownership::{LossReason, OwnershipView};
use crate::registration::Claim;
use delayq::protocol::ShardId;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep};

mod news;
mod reading;

/// Keys in one transaction: etcd takes 128 operations, and each key costs one inside another.
const BATCH: usize = 100;
/// Shards being handed over at once. Measured where a sync of etcd's disk takes 2.4 ms: handing 256 over all at once, a
/// shard stood still for up to 73 ms; 32 at once, for up to 27 ms, and all of them took as long as before.
const YIELDS_AT_ONCE: usize = 32;
/// How long no hand-over may get through before others are started as well: a consumer that waits for a dead Redis
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
    /// Whether an operator keeps this member without shards.
    drained: bool,
    rechecks: Vec<oneshot::Sender<()>>,
    backoff: Backoff,
    /// The pauses while etcd takes no writes.
    exhausted: Backoff,
}

/// Why what was being done is left.
enum Interrupt {
    /// Everything must be read again.
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
            drained: false,
            rechecks: Vec::new(),
            backoff: Backoff::up_to(SHORT_PAUSE),
            exhausted: Backoff::up_to(LONGEST_PAUSE),
        }
    }

    /// Follows the plan until the member leaves.
    pub(crate) async fn run(mut self) {
        loop {
            // Not marked as seen: whatever else the standing says arrives as news, and is acted on there.
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
            Ok(Err(error)) => self.pause_after(session, &error).await,
            Ok(Ok(mut watch)) => loop {
                match self.step(session, &mut watch).await {
                    Err(interrupt) => return Some(interrupt),
                    Ok(Err(error)) => return self.pause_after(session, &error).await,
                    // Only now: what can be read is not always what can be written.
                    Ok(Ok(())) => self.backoff.reset(),
                }
            },
        }
    }

    async fn pause_after(&mut self, session: &Session, error: &EtcdError) -> Option<Interrupt> {
        tracing::debug!(?error, "the plan is read again");
        if *error == EtcdError::LeaseGone {
            let _ = self.missed.send(session.lease);
        }
        if *error == EtcdError::Compacted {
            self.base.counters.compacted.add(1);
            return Some(Interrupt::Relist);
        }
        let exhausted = matches!(error, EtcdError::Exhausted(_));
        let pause = if exhausted { self.exhausted.next() } else { self.backoff.next() };
        self.attend(Some(session), sleep(pause)).await.err()
    }

    /// Does what is due, or waits for the next change.
    async fn step(
        &mut self,
        session: &Session,
        watch: &mut Watch,
    ) -> Result<Result<(), EtcdError>, Interrupt> {
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
                        Err(error) => return Ok(Err(error)),
                    }
                }
                Ok(Ok(()))
            }
            Some(Err(error)) => Ok(Err(error)),
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
    ) -> Result<Result<(), EtcdError>, Interrupt> {
        let keys: Vec<String> = stopped.iter().map(|&shard| self.base.keys.claim(shard)).collect();
        let (link, lease) = (self.base.link.clone(), session.lease);
        if let Err(error) = self.attend(Some(session), async { link.delete_each(&keys, lease).await }).await?
        {
            return Ok(Err(error));
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
    ) -> Result<Result<(), EtcdError>, Interrupt> {
        let keys: Vec<String> = wanted.iter().map(|&shard| self.base.keys.claim(shard)).collect();
        let name = self.base.config.member.name.clone();
        let document = Claim { member: session.member.clone(), name }.to_json();
        let fence = Fence::Written(self.base.keys.plan(), self.plan_revision);
        let (link, lease) = (self.base.link.clone(), session.lease);
        let request = async { link.create_each(&fence, &keys, &document, lease).await };
        let answers = match self.attend(Some(session), request).await? {
            Ok(answers) => answers,
            Err(error) => return Ok(Err(error)),
        };
        self.exhausted.reset();
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
}
