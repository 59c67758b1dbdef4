//! Signs of life of threads and loops that could hang unnoticed.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

#[derive(Clone, Debug, Default)]
pub(crate) struct Heartbeats(Arc<Mutex<Vec<Weak<Beats>>>>);

/// A loop's sign of life, expected until dropped.
#[derive(Debug)]
pub struct Heartbeat(Arc<Beats>);

#[derive(Debug)]
struct Beats {
    name: &'static str,
    within: Duration,
    begun: Instant,
    /// The last beat, in ms since the start.
    last_ms: AtomicU64,
}

// === impl Heartbeats ===

impl Heartbeats {
    pub(crate) fn add(&self, name: &'static str, within: Duration) -> Heartbeat {
        let beats = Arc::new(Beats { name, within, begun: Instant::now(), last_ms: AtomicU64::new(0) });
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|beats| beats.strong_count() > 0);
        all.push(Arc::downgrade(&beats));
        Heartbeat(beats)
    }

    pub(crate) fn stuck(&self) -> Vec<&'static str> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().filter_map(Weak::upgrade).filter(|beats| beats.is_late()).map(|beats| beats.name).collect()
    }
}

// === impl Heartbeat ===

impl Heartbeat {
    /// Shows a sign of life.
    pub fn beat(&self) {
        self.0.last_ms.store(self.0.now_ms(), Ordering::Relaxed);
    }
}

// === impl Beats ===

impl Beats {
    fn now_ms(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn is_late(&self) -> bool {
        let silent_ms = self.now_ms().saturating_sub(self.last_ms.load(Ordering::Relaxed));
        u128::from(silent_ms) > self.within.as_millis()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_heartbeat_is_stuck_until_it_beats_or_ends() {
        let all = Heartbeats::default();
        let (calm, stuck) = (all.add("calm", Duration::from_secs(3600)), all.add("stuck", Duration::ZERO));
        assert!(all.stuck().iter().all(|&name| name == "stuck"));
        while all.stuck().is_empty() {
            std::thread::yield_now();
        }
        calm.beat();
        assert_eq!(all.stuck(), ["stuck"]);
        drop(stuck);
        assert!(all.stuck().is_empty(), "what has ended is not missed");
    }
}
