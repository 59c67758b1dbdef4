//! Fitness of the deployment's Redis to keep messages: checked before serving, and regularly afterwards.

use crate::fault::Fault;
use crate::readiness::{Condition, Readiness};
use crate::shutdown::Shutdown;
use delayq::admin::ServerFacts;
use delayq::{Admin, Client, Error};
use std::time::Duration;

/// Interval of checks, extended by a random time up to the same length, so that the processes of a fleet do not check
/// in step.
const EVERY: Duration = Duration::from_secs(40);
/// Interval of checks while Redis is away.
const EVERY_WHILE_AWAY: Duration = Duration::from_secs(5);

/// Checks a Redis regularly, and reports the result as the condition `redis`.
#[derive(Debug)]
pub struct Fitness {
    admin: Admin,
    condition: Condition,
    every: Duration,
    /// The process works while Redis is away.
    is_bridged: bool,
    unfit: Option<String>,
    away: bool,
    warned: bool,
}

// === impl Fitness ===

impl Fitness {
    /// Checks Redis for a service that cannot start without it.
    ///
    /// # Errors
    /// The cause ([`codes::redis`](crate::codes::redis)): Redis is unreachable, would lose messages, denies a command, or holds
    /// another deployment.
    pub async fn required(client: &Client, readiness: &Readiness) -> Result<Self, Fault> {
        let mut fitness = Self::new(client, readiness);
        match fitness.admin.check_server().await {
            Err(error) => Err(unusable(client, error)),
            fit => fitness.judge(fit).map(|()| fitness),
        }
    }

    /// Checks Redis for a service that waits for an unavailable Redis, and judges Redis at the first answer.
    ///
    /// # Errors
    /// As [`required`](Self::required): Redis would lose messages, denies a command, or holds another deployment.
    pub async fn if_there(client: &Client, readiness: &Readiness) -> Result<Self, Fault> {
        let mut fitness = Self::new(client, readiness);
        let found = fitness.admin.check_server().await;
        fitness.judge(found).map(|()| fitness)
    }

    /// Starts from a Redis that has just been found fit.
    #[must_use]
    pub fn found(client: &Client, readiness: &Readiness) -> Self {
        let fitness = Self::new(client, readiness);
        fitness.condition.ready();
        fitness
    }

    fn new(client: &Client, readiness: &Readiness) -> Self {
        let condition = readiness.condition("redis");
        Self {
            admin: Admin::new(client.clone()),
            condition,
            every: EVERY,
            is_bridged: false,
            unfit: None,
            away: false,
            warned: false,
        }
    }

    /// Sets the interval of checks, from 1 ms.
    #[must_use]
    pub fn every(self, every: Duration) -> Self {
        Self { every, ..self }
    }

    /// Stays ready while Redis is unavailable, for a process that keeps writes in a spool until Redis is back. A Redis that
    /// would lose messages makes it unready all the same.
    #[must_use]
    pub fn bridged(self) -> Self {
        if self.away {
            self.condition.ready();
        }
        Self { is_bridged: true, ..self }
    }

    /// Checks until shutdown. An unfit Redis is logged and makes this process unready, but work continues: stopping
    /// would only make everything late as well.
    ///
    /// # Errors
    /// None; a task's signature requires the result.
    pub async fn watch(mut self, shutdown: Shutdown) -> Result<(), Fault> {
        loop {
            let rest = if self.away { self.every.min(EVERY_WHILE_AWAY) } else { self.every };
            let rest = rest + rest.mul_f64(fastrand::f64());
            let check = async {
                tokio::time::sleep(rest).await;
                self.admin.check_server().await
            };
            let Some(found) = shutdown.or(check).await else { return Ok(()) };
            if let Err(fault) = self.judge(found) {
                let why = fault.to_string();
                self.condition.unready(why.clone());
                if self.unfit.as_ref() != Some(&why) {
                    tracing::error!("{fault}");
                }
                self.unfit = Some(why);
            }
        }
    }

    fn judge(&mut self, found: Result<ServerFacts, Error>) -> Result<(), Fault> {
        self.away = found.is_err();
        match found {
            Err(error @ (Error::Unfit(_) | Error::Deployment(_))) => {
                return Err(unusable(self.admin.client(), error));
            }
            Err(error) => {
                tracing::debug!(%error, "cannot check Redis now");
                if !self.is_bridged {
                    self.condition.unready(format!("a probe of Redis failed: {error}"));
                }
                return Ok(());
            }
            Ok(facts) => {
                self.warn_of_its_log(&facts);
                if self.unfit.take().is_some() {
                    tracing::info!("Redis is fit again");
                }
            }
        }
        if self.unfit.is_none() {
            self.condition.ready();
        }
        Ok(())
    }

    fn warn_of_its_log(&mut self, facts: &ServerFacts) {
        if facts.aof_as_loaded && !self.warned {
            tracing::warn!(
                "Redis has not rewritten its append-only file since it started: after a crash, run \
                 BGREWRITEAOF, because a torn end can prevent the next start (docs/operations/repair.md)"
            );
        }
        self.warned = facts.aof_as_loaded;
    }
}

fn unusable(client: &Client, error: Error) -> Fault {
    Fault::of_redis(&format!("work with {}", client.address()), error)
}
