//! Elects the leader: the member with the oldest registration. Each other member waits until the member just before is
//! gone.
//!
//! So a leader's end wakes one member, not all. The create revision of the leader's registration is compared in every
//! write of a plan: a leader without a registration writes nothing, whatever its belief.

use crate::backoff::Backoff;
use crate::etcd::{Change, EtcdError, WatchRange};
use crate::leader::Leader;
use crate::membership::{Base, LONGEST_PAUSE, Leaving, Session, Standing};
use std::future::{Future, pending};
use tokio::sync::watch;
use tokio::time::sleep;

pub(crate) struct Campaigner {
    base: Base,
    standing: watch::Receiver<Standing>,
    turns: watch::Receiver<u64>,
    leaving: Leaving,
}

enum FailedTry {
    /// The member before is gone, or leadership was overtaken: check again.
    CheckAgain,
    Failed(EtcdError),
}

enum Outside {
    Changed,
    Left,
}

// === impl Campaigner ===

impl Campaigner {
    pub(crate) fn new(base: Base, standing: watch::Receiver<Standing>, leaving: Leaving) -> Self {
        let turns = base.link.turns();
        Self { base, standing, turns, leaving }
    }

    pub(crate) async fn run(mut self) {
        let mut backoff = Backoff::up_to(LONGEST_PAUSE);
        loop {
            let session = self.standing.borrow_and_update().session.clone();
            self.turns.borrow_and_update();
            let base = self.base.clone();
            let round = async {
                match &session {
                    Some(session) => run_round(&base, session).await,
                    None => pending().await,
                }
            };
            match self.until_outside(round, session.as_deref()).await {
                Err(Outside::Left) => return,
                Err(Outside::Changed) => {}
                Ok(FailedTry::CheckAgain) => backoff.reset(),
                Ok(FailedTry::Failed(error)) => {
                    tracing::debug!(?error, "the campaign starts again");
                    // Not cut short by a new connection: two failing tasks would wake each other without end.
                    tokio::select! {
                        _ = self.leaving.changed() => return,
                        () = sleep(backoff.next()) => {}
                    }
                }
            }
        }
    }

    async fn until_outside(
        &mut self,
        work: impl Future<Output = FailedTry>,
        session: Option<&Session>,
    ) -> Result<FailedTry, Outside> {
        tokio::pin!(work);
        loop {
            tokio::select! {
                biased;
                _ = self.leaving.changed() => return Err(Outside::Left),
                done = &mut work => return Ok(done),
                Ok(()) = self.turns.changed() => return Err(Outside::Changed),
                Ok(()) = self.standing.changed() => {
                    let standing = self.standing.borrow_and_update();
                    if standing.session.as_deref().map(|s| &s.member) != session.map(|s| &s.member) {
                        return Err(Outside::Changed);
                    }
                }
            }
        }
    }
}

async fn run_round(base: &Base, session: &Session) -> FailedTry {
    let result = match member_before(base, session.rank).await {
        Ok(Some((key, read_at))) => wait_for_end(base, &key, read_at).await,
        Ok(None) => Leader::new(base.clone(), session.clone()).lead().await,
        Err(error) => Err(error),
    };
    result.map_or_else(FailedTry::Failed, |()| FailedTry::CheckAgain)
}

/// The revision belongs to the reading.
async fn member_before(base: &Base, rank: i64) -> Result<Option<(Vec<u8>, i64)>, EtcdError> {
    let mut below = rank;
    loop {
        match base.link.created_before(&base.keys.members(), below).await? {
            (None, _) => return Ok(None),
            (Some(entry), read_at) if entry.lease != 0 => return Ok(Some((entry.key, read_at))),
            // Without a lease the key is not a member's, and waiting for its end would be in vain.
            (Some(entry), _) => below = entry.create_revision,
        }
    }
}

/// Waits until the key of the member before is gone, or no longer belongs to a member.
async fn wait_for_end(base: &Base, key: &[u8], read_at: i64) -> Result<(), EtcdError> {
    let key = String::from_utf8_lossy(key).into_owned();
    let range = WatchRange::key(key);
    let mut watch = base.link.watch(&[range], read_at).await?;
    loop {
        let changes = watch.next().await?;
        let ended = |change: &Change| match change {
            Change::Deleted(..) => true,
            Change::Put(entry) => entry.lease == 0,
        };
        if changes.iter().any(ended) {
            return Ok(());
        }
    }
}
