//! Looks at the deployment for requests: one at a time, and each for all requests of a while, because a look asks every shard for
//! every topic.

use crate::problem::{Kind, Problem};
use delayq_look::{Deployment, Look, Want};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Mutex;

/// Minimum age of a look before the next one.
const MIN_AGE: Duration = Duration::from_secs(1);
/// A look is kept for this many times its own duration, so looks take at most a tenth of the time.
const REST: u32 = 10;

/// Every part, without the walk over the keys of other deployments.
const WANT: Want<'static> = Want { others: false, ..Want::JUDGED };

#[derive(Clone)]
pub(crate) struct Looks {
    deployment: Deployment,
    latest: Arc<Mutex<Option<Arc<TimedLook>>>>,
}

pub(crate) struct TimedLook {
    pub(crate) look: Look,
    took: Duration,
    at: Instant,
}

// === impl Looks ===

impl Looks {
    pub(crate) fn new(deployment: Deployment) -> Self {
        Self { deployment, latest: Arc::default() }
    }

    /// The latest look, or a new one. Cancel safe: a look continues without the request, so a request with a short deadline
    /// does not have the next one start over.
    pub(crate) async fn latest(&self) -> Result<Arc<TimedLook>, Problem> {
        let looks = self.clone();
        let taken = tokio::spawn(async move { looks.fresh().await }).await;
        taken.map_err(|error| Problem::new(Kind::Fault, format!("the look failed: {error}")))
    }

    async fn fresh(&self) -> Arc<TimedLook> {
        let mut latest = self.latest.lock().await;
        if let Some(taken) = latest.as_ref().filter(|taken| taken.is_fresh()) {
            return Arc::clone(taken);
        }
        let started = Instant::now();
        let look = Look::take(&self.deployment, WANT).await;
        let taken = Arc::new(TimedLook { look, took: started.elapsed(), at: Instant::now() });
        *latest = Some(Arc::clone(&taken));
        taken
    }
}

// === impl TimedLook ===

impl TimedLook {
    pub(crate) fn age(&self) -> Duration {
        self.at.elapsed()
    }

    fn is_fresh(&self) -> bool {
        self.age() < rest(self.took)
    }
}

fn rest(took: Duration) -> Duration {
    MIN_AGE.max(took * REST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_take_at_most_a_tenth_of_the_time_and_one_a_second() {
        for (took_ms, rest_ms) in [(0, 1000), (5, 1000), (100, 1000), (101, 1010), (8000, 80_000)] {
            assert_eq!(rest(Duration::from_millis(took_ms)), Duration::from_millis(rest_ms));
        }
    }
}
