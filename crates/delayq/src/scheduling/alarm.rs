//! The alarm: wakes at a moment to a few hundredths of a millisecond, without spinning.
//!
//! tokio's timers have a grain of one millisecond. A timerfd of Linux has no such grain, and wakes the runtime like any
//! other readable file: without another thread or a hand-over. On other systems, the alarm has tokio's grain.

#[cfg(not(target_os = "linux"))]
mod grain;
#[cfg(target_os = "linux")]
mod timerfd;

use crate::clock;
#[cfg(not(target_os = "linux"))]
use grain::Bell;
use std::io;
use std::time::Instant;
#[cfg(target_os = "linux")]
use timerfd::Bell;

/// Belongs to the runtime that started the alarm.
#[derive(Debug)]
pub struct Alarm {
    bell: Bell,
}

// === impl Alarm ===

impl Alarm {
    /// Starts an alarm that is not set yet.
    ///
    /// # Errors
    /// The system has no timer to give.
    pub fn start() -> io::Result<Self> {
        Ok(Self { bell: Bell::new()? })
    }

    /// Returns at `at`, or later. For a moment in the past, lets the runtime do all other work first. Cancel
    /// safe: the next wait sets the alarm again.
    pub async fn wait_until(&mut self, at: Instant) {
        if at <= clock::steady() {
            return tokio::task::yield_now().await;
        }
        loop {
            let left = at.saturating_duration_since(clock::steady());
            if left.is_zero() {
                return;
            }
            if self.bell.ring(at, left).await.is_err() {
                // Without the kernel's timer the alarm is late by tokio's grain at most.
                tokio::time::sleep(left).await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[tokio::test]
    async fn it_never_rings_early_and_a_sooner_time_replaces_a_later_one() {
        let mut alarm = Alarm::start().unwrap();
        let start = clock::steady();
        let later = start + Duration::from_secs(60);
        let dropped = tokio::time::timeout(Duration::from_millis(5), alarm.wait_until(later)).await;
        assert!(dropped.is_err());
        for n in 1..=20 {
            let at = start + Duration::from_millis(10 + 3 * n);
            alarm.wait_until(at).await;
            assert!(clock::steady() >= at);
        }
        assert!(start.elapsed() < Duration::from_secs(30));
    }

    #[tokio::test]
    async fn a_moment_that_is_over_does_not_wait() {
        let mut alarm = Alarm::start().unwrap();
        alarm.wait_until(clock::steady()).await;
    }

    #[tokio::test]
    async fn a_moment_that_is_over_keeps_the_runtime_from_nobody() {
        let mut alarm = Alarm::start().unwrap();
        let over = clock::steady();
        let waiting = async {
            loop {
                alarm.wait_until(over).await;
            }
        };
        tokio::select! {
            biased;
            () = waiting => {}
            () = tokio::time::sleep(Duration::from_millis(2)) => {}
        }
    }

    #[tokio::test]
    async fn a_wait_that_was_dropped_after_it_rang_does_not_end_the_next_one_early() {
        let mut alarm = Alarm::start().unwrap();
        let at = clock::steady() + Duration::from_millis(2);
        drop(tokio::time::timeout(Duration::ZERO, alarm.wait_until(at)).await);
        std::thread::sleep(Duration::from_millis(5));
        let next = clock::steady() + Duration::from_millis(20);
        alarm.wait_until(next).await;
        assert!(clock::steady() >= next);
    }
}
