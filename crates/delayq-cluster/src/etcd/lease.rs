//! Leases: granted, kept alive on one stream, given back.

use super::link::{EtcdError, EtcdLink};
use etcd_client::{Error, LeaseKeepAliveStream, LeaseKeeper};
use std::time::Duration;
use tokio::time::{Instant, timeout};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Grant {
    pub(crate) lease: i64,
    /// The granted time, which may be longer than requested.
    pub(crate) ttl: Duration,
    /// Time of the request: the lease lives at least from this time on.
    pub(crate) sent: Instant,
}

pub(crate) struct KeepAlive {
    keeper: LeaseKeeper,
    answers: LeaseKeepAliveStream,
    deadline: Duration,
    turn: u64,
}

// === impl EtcdLink ===

impl EtcdLink {
    pub(crate) async fn grant(&self, ttl: Duration) -> Result<Grant, EtcdError> {
        let seconds = i64::try_from(ttl.as_secs()).unwrap_or(i64::MAX);
        let sent = Instant::now();
        let answer = self.ask(|mut client| async move { client.lease_grant(seconds, None).await }).await?;
        let granted = u64::try_from(answer.ttl()).unwrap_or(0);
        Ok(Grant { lease: answer.id(), ttl: Duration::from_secs(granted), sent })
    }

    /// Deletes every key under the lease. A lease that is already gone is no error.
    pub(crate) async fn revoke(&self, lease: i64) -> Result<(), EtcdError> {
        match self.ask(|mut client| async move { client.lease_revoke(lease).await }).await {
            Ok(_) | Err(EtcdError::LeaseGone) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Opening the stream keeps the lease alive once.
    pub(crate) async fn keep_alive(&self, lease: i64) -> Result<KeepAlive, EtcdError> {
        let open = |mut client: etcd_client::Client| async move {
            match client.lease_keep_alive(lease).await {
                Ok(stream) => Ok(Some(stream)),
                // The client's error for "answered with a time of zero", but also for a stream that failed early.
                Err(Error::LeaseKeepAliveError(_)) => {
                    let alive = client.lease_time_to_live(lease, None).await?.ttl() > 0;
                    if alive { client.lease_keep_alive(lease).await.map(Some) } else { Ok(None) }
                }
                Err(error) => Err(error),
            }
        };
        let turn = self.turn();
        let (keeper, answers) = self.ask(open).await?.ok_or(EtcdError::LeaseGone)?;
        Ok(KeepAlive { keeper, answers, deadline: *self.config().call_deadline, turn })
    }
}

// === impl KeepAlive ===

impl KeepAlive {
    pub(crate) fn turn(&self) -> u64 {
        self.turn
    }

    /// Returns the renewed time to live. etcd reports a lease that is gone by a time of zero.
    pub(crate) async fn renew(&mut self) -> Result<Duration, EtcdError> {
        let exchange = async {
            self.keeper.keep_alive().await?;
            self.answers.message().await
        };
        let answer = match timeout(self.deadline, exchange).await {
            Ok(Ok(Some(answer))) => answer,
            Ok(Ok(None)) => return Err(EtcdError::Silent("etcd closed the keep-alive stream".into())),
            Ok(Err(error)) => return Err(EtcdError::of(&error)),
            Err(_) => return Err(EtcdError::Silent(format!("no keep-alive within {:?}", self.deadline))),
        };
        match u64::try_from(answer.ttl()) {
            Ok(0) | Err(_) => Err(EtcdError::LeaseGone),
            Ok(seconds) => Ok(Duration::from_secs(seconds)),
        }
    }
}
