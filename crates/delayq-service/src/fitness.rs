//! Whether the deployment's Redis is fit to keep messages: before anything is served, and again while it is.

use crate::codes::REDIS_UNFIT;
use crate::fault::Fault;
use crate::readiness::{Condition, Readiness};
use crate::shutdown::Shutdown;
use delayq_core::{Client, Error, ServerFacts};
use std::time::Duration;

/// How often Redis is looked at again, with up to as much again by chance: a fleet must not look in step.
const EVERY: Duration = Duration::from_secs(40);
/// The same while it does not answer.
const EVERY_WHILE_AWAY: Duration = Duration::from_secs(5);

/// Keeps looking at a Redis, and says what it finds as the condition `redis`.
#[derive(Debug)]
pub struct Fitness {
    client: Client,
    condition: Condition,
    every: Duration,
    /// Why it is unfit, as it was said last.
    unfit: Option<String>,
    away: bool,
    /// Whether it was said that its append-only file is as it was loaded.
    warned: bool,
}

// === impl Fitness ===

impl Fitness {
    /// For a service that cannot do without Redis.
    ///
    /// # Errors
    /// [`REDIS_UNFIT`]: it cannot be reached, would lose messages, denies a command, or holds another deployment.
    pub async fn required(client: &Client, readiness: &Readiness) -> Result<Self, Fault> {
        let mut fitness = Self::new(client, readiness);
        match client.check_server().await {
            Err(error) => Err(fault(client, error)),
            fit => fitness.judge(fit).map(|()| fitness),
        }
    }

    /// For a service that waits for a Redis that is away. It is judged when it answers.
    ///
    /// # Errors
    /// [`REDIS_UNFIT`]: it would lose messages, denies a command, or holds another deployment.
    pub async fn if_there(client: &Client, readiness: &Readiness) -> Result<Self, Fault> {
        let mut fitness = Self::new(client, readiness);
        let found = client.check_server().await;
        fitness.judge(found).map(|()| fitness)
    }

    /// For a Redis that was found fit just now.
    #[must_use]
    pub fn found(client: &Client, readiness: &Readiness) -> Self {
        let fitness = Self::new(client, readiness);
        fitness.condition.ready();
        fitness
    }

    fn new(client: &Client, readiness: &Readiness) -> Self {
        let condition = readiness.condition("redis");
        Self { client: client.clone(), condition, every: EVERY, unfit: None, away: false, warned: false }
    }

    /// Looks as often as this instead, from 1 ms on.
    #[must_use]
    pub fn every(self, every: Duration) -> Self {
        Self { every, ..self }
    }

    /// Looks again and again until shutdown is asked for. A Redis that is unfit meanwhile makes this process unready and is
    /// logged; what is under way goes on, because ending would only make everything late as well.
    ///
    /// # Errors
    /// None; the type is that of a task.
    pub async fn watch(mut self, shutdown: Shutdown) -> Result<(), Fault> {
        loop {
            let rest = if self.away { self.every.min(EVERY_WHILE_AWAY) } else { self.every };
            let rest = rest + rest.mul_f64(fastrand::f64());
            let look = async {
                tokio::time::sleep(rest).await;
                self.client.check_server().await
            };
            let Some(found) = shutdown.or(look).await else { return Ok(()) };
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

    /// Whoever calls Redis says itself when it is away.
    fn judge(&mut self, found: Result<ServerFacts, Error>) -> Result<(), Fault> {
        self.away = found.is_err();
        match found {
            Err(error @ (Error::Unfit(_) | Error::Deployment(_))) => return Err(fault(&self.client, error)),
            Err(error) => tracing::debug!(%error, "Redis cannot be looked at now"),
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
                "Redis has not rewritten its append-only file since it started: unless it was stopped in order, run \
                 BGREWRITEAOF, because a torn end would spoil its next start (docs/operations.md)"
            );
        }
        self.warned = facts.aof_as_loaded;
    }
}

fn fault(client: &Client, error: Error) -> Fault {
    Fault::new(&REDIS_UNFIT, format!("cannot work with {}", client.address())).because(error)
}
