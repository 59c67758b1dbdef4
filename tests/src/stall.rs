//! The time that the machine kept programs waiting for a core, the disk or memory, which may explain a time beyond its
//! bound ([`crate::timing`]).
//!
//! Linux counts this (`/proc/pressure`, the time in which some program waited). Without these counters, and for delays
//! beyond them, such as a host that gives its guest no core, a sleeping thread measures its late wake-ups.

use crate::timing::Timing;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

const EVERY: Duration = Duration::from_millis(10);

/// Watches the machine until dropped.
#[derive(Debug)]
pub struct Stall {
    samples: Arc<Mutex<Vec<Sample>>>,
}

#[derive(Debug, Clone, Copy)]
struct Sample {
    at: Instant,
    waited: Duration,
}

// === impl Stall ===

impl Stall {
    /// Starts watching.
    #[must_use]
    pub fn watch() -> Self {
        let mut overslept = Duration::ZERO;
        let first = Sample { at: Instant::now(), waited: pressure() };
        let samples = Arc::new(Mutex::new(vec![first]));
        let kept = Arc::downgrade(&samples);
        thread::spawn(move || {
            let mut before = first.at;
            while let Some(samples) = kept.upgrade() {
                drop(samples);
                thread::sleep(EVERY);
                let now = Instant::now();
                overslept += now.duration_since(before).saturating_sub(EVERY);
                before = now;
                let Some(samples) = kept.upgrade() else { return };
                let sample = Sample { at: now, waited: pressure() + overslept };
                samples.lock().unwrap_or_else(PoisonError::into_inner).push(sample);
            }
        });
        Self { samples }
    }

    /// Judges a time that was measured while watching. Panics if it exceeds the bound plus the machine's own delays.
    pub fn judge(&self, what: &str, took: Duration, bound: Duration) -> Timing {
        Timing::of(what, took, bound, self.allow(bound))
    }

    /// The bound plus the machine's delays in the worst stretch of that length so far; the delays lengthen the stretch.
    #[must_use]
    pub fn allow(&self, bound: Duration) -> Duration {
        let samples = self.samples.lock().unwrap_or_else(PoisonError::into_inner);
        allow(&samples, bound)
    }
}

fn allow(samples: &[Sample], bound: Duration) -> Duration {
    let mut allowed = bound;
    loop {
        let next = bound + worst(samples, allowed);
        // Steps of a twentieth: converges even if everything waits all the time.
        if next <= allowed + allowed / 20 {
            return next;
        }
        allowed = next;
    }
}

fn worst(samples: &[Sample], stretch: Duration) -> Duration {
    let mut from = 0;
    let waited = |to: &Sample| {
        while samples[from + 1..].first().is_some_and(|next| next.at + stretch <= to.at) {
            from += 1;
        }
        to.waited.saturating_sub(samples[from].waited)
    };
    samples.iter().map(waited).max().unwrap_or_default()
}

/// Time in which some program waited for one of the three, since boot.
fn pressure() -> Duration {
    let us = |of: &str| -> Option<u64> {
        let text = std::fs::read_to_string(format!("/proc/pressure/{of}")).ok()?;
        let some = text.lines().find(|line| line.starts_with("some "))?;
        some.rsplit_once("total=")?.1.parse().ok()
    };
    Duration::from_micros(["cpu", "io", "memory"].into_iter().filter_map(us).sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every 10 ms.
    fn samples(waited_ms: &[u64]) -> Vec<Sample> {
        let start = Instant::now();
        let mut waited = Duration::ZERO;
        let mut sample = |(n, ms): (u32, u64)| {
            waited += Duration::from_millis(ms);
            Sample { at: start + EVERY * n, waited }
        };
        (0..).zip([0].into_iter().chain(waited_ms.iter().copied())).map(&mut sample).collect()
    }

    #[test]
    fn an_idle_machine_allows_nothing_more() {
        assert_eq!(allow(&samples(&[0; 50]), Duration::from_millis(40)), Duration::from_millis(40));
        assert_eq!(allow(&samples(&[]), Duration::from_millis(40)), Duration::from_millis(40));
    }

    #[test]
    fn a_wait_within_the_stretch_is_allowed_and_two_far_apart_are_not_added() {
        let mut waited = [0; 50];
        (waited[5], waited[45]) = (7, 9);
        assert_eq!(allow(&samples(&waited), Duration::from_millis(100)), Duration::from_millis(109));
    }

    #[test]
    fn where_everything_waits_all_is_allowed() {
        let allowed = allow(&samples(&[10; 50]), Duration::from_millis(50));
        assert!(allowed >= Duration::from_millis(500), "{allowed:?}");
    }

    #[test]
    fn a_watch_allows_at_least_the_bound() {
        let stall = Stall::watch();
        thread::sleep(2 * EVERY);
        assert!(stall.allow(EVERY) >= EVERY);
    }
}
