//! The course of a measurement: confirmed messages, and the end of the warm-up.

use crate::cpu;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

#[derive(Clone, Copy)]
pub(crate) struct Figure {
    pub(crate) rate: f64,
    pub(crate) cost_us: f64,
}

/// A measurement of `count` messages. The first tenth is warm-up.
pub(crate) struct Course {
    count: usize,
    confirmed: AtomicUsize,
    warm: OnceLock<Warm>,
}

struct Warm {
    at: Instant,
    worked: Duration,
    confirmed: usize,
}

// === impl Course ===

impl Course {
    pub(crate) fn new(count: usize) -> Arc<Self> {
        Arc::new(Self { count, confirmed: AtomicUsize::new(0), warm: OnceLock::new() })
    }

    pub(crate) fn confirmed(&self, more: usize) {
        let before = self.confirmed.fetch_add(more, Ordering::Relaxed);
        self.warmed_up(before, before + more);
    }

    pub(crate) fn reached(&self, confirmed: usize) {
        let before = self.confirmed.swap(confirmed, Ordering::Relaxed);
        self.warmed_up(before, confirmed);
    }

    fn warmed_up(&self, before: usize, confirmed: usize) {
        let enough = self.count / 10;
        if before < enough && confirmed >= enough {
            self.warm.get_or_init(|| Warm { at: Instant::now(), worked: cpu::worked(), confirmed });
        }
    }

    pub(crate) fn figure(&self) -> Figure {
        assert_eq!(self.confirmed.load(Ordering::Relaxed), self.count);
        let warm = self.warm.get().expect("a tenth is less than all");
        let counted = (self.count - warm.confirmed) as f64;
        let cost = cpu::worked() - warm.worked;
        Figure {
            rate: counted / warm.at.elapsed().as_secs_f64(),
            cost_us: cost.as_secs_f64() * 1e6 / counted,
        }
    }
}
