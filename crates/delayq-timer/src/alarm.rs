//! The alarm: waking at a moment to a few hundredths of a millisecond, without spinning.
//!
//! tokio's timers have a grain of one millisecond. They carry a wait to two milliseconds before its end; the rest is
//! slept by a thread of its own, whose sleep the kernel ends by a high-resolution timer.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// Where tokio hands over to the thread: its grain, and as much again for a busy runtime.
const HAND_OVER: Duration = Duration::from_millis(2);

/// One alarm and its thread. Dropping it ends the thread.
#[derive(Debug)]
pub(crate) struct Alarm {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    set: Mutex<Set>,
    rang: Notify,
}

#[derive(Debug, Default)]
struct Set {
    at: Option<Instant>,
    ended: bool,
}

// === impl Alarm ===

impl Alarm {
    /// Starts the thread; it sleeps until the alarm is set.
    ///
    /// # Errors
    /// The system gives no thread.
    pub(crate) fn start() -> std::io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let theirs = shared.clone();
        let thread = thread::Builder::new().name("delayq-alarm".to_owned()).spawn(move || theirs.watch())?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Returns at `at`; for ever pending without one. Safe to drop: the next wait sets the alarm anew.
    pub(crate) async fn wait_until(&self, at: Option<Instant>) {
        let Some(at) = at else { return std::future::pending().await };
        if at.saturating_duration_since(Instant::now()) > HAND_OVER {
            tokio::time::sleep_until((at - HAND_OVER).into()).await;
        }
        while Instant::now() < at {
            self.set(at);
            self.shared.rang.notified().await;
        }
    }

    fn set(&self, at: Instant) {
        let mut set = self.shared.lock();
        if set.at == Some(at) {
            return;
        }
        // A thread that sleeps for a shorter time rings too early, which the waiter bears; only a sooner time wakes it.
        let sooner = set.at.is_none_or(|before| at < before);
        set.at = Some(at);
        drop(set);
        if sooner && let Some(thread) = &self.thread {
            thread.thread().unpark();
        }
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        self.shared.lock().ended = true;
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // It ends at once, and has nothing to say.
            let _ = thread.join();
        }
    }
}

// === impl Shared ===

impl Shared {
    /// The thread: sleeps, rings, and rings only once for each time that is set.
    fn watch(&self) {
        loop {
            let mut set = self.lock();
            if set.ended {
                return;
            }
            let now = Instant::now();
            match set.at {
                Some(at) if at <= now => {
                    set.at = None;
                    drop(set);
                    self.rang.notify_one();
                }
                Some(at) => {
                    drop(set);
                    thread::park_timeout(at - now);
                }
                None => {
                    drop(set);
                    thread::park();
                }
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Set> {
        // Two plain fields: no panic leaves them half set.
        self.set.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn it_never_rings_early_and_a_sooner_time_replaces_a_later_one() {
        let alarm = Alarm::start().unwrap();
        let start = Instant::now();
        let later = start + Duration::from_secs(60);
        let dropped = tokio::time::timeout(Duration::from_millis(5), alarm.wait_until(Some(later))).await;
        assert!(dropped.is_err());
        for n in 1..=20 {
            let at = start + Duration::from_millis(10 + 3 * n);
            alarm.wait_until(Some(at)).await;
            assert!(Instant::now() >= at);
        }
        assert!(start.elapsed() < Duration::from_secs(30));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn a_moment_that_is_over_does_not_wait() {
        let alarm = Alarm::start().unwrap();
        alarm.wait_until(Some(Instant::now())).await;
    }
}
