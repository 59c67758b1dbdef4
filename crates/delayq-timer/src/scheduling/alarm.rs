//! The alarm: wakes at a moment to a few hundredths of a millisecond, without spinning.
//!
//! tokio's timers have a grain of one millisecond. A timerfd has no such grain, and wakes the runtime like any other
//! readable file: without another thread or a hand-over.

use rustix::fd::OwnedFd;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use std::io;
use std::time::{Duration, Instant};
use tokio::io::unix::AsyncFd;

/// Belongs to the runtime that started the alarm.
#[derive(Debug)]
pub(crate) struct Alarm {
    timer: AsyncFd<OwnedFd>,
    set: Option<Instant>,
}

// === impl Alarm ===

impl Alarm {
    /// The alarm is not set yet. Fails if the system has no timer to give.
    pub(crate) fn start() -> io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        #[allow(
            deprecated,
            reason = "its unsafe successor asks for what an OwnedFd has: a file open while it lives"
        )]
        let timer = AsyncFd::new(timer)?;
        Ok(Self { timer, set: None })
    }

    /// Returns at `at`, or later. For a moment in the past, lets the runtime do all other work first. Cancel
    /// safe: the next wait sets the alarm again.
    pub(crate) async fn wait_until(&mut self, at: Instant) {
        if at <= Instant::now() {
            return tokio::task::yield_now().await;
        }
        loop {
            let left = at.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            if self.ring(at, left).await.is_err() {
                // Without the kernel's timer the alarm is late by tokio's grain at most.
                tokio::time::sleep(left).await;
            }
        }
    }

    async fn ring(&mut self, at: Instant, left: Duration) -> io::Result<()> {
        if self.set != Some(at) {
            timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &once(left))?;
            self.set = Some(at);
        }
        let mut ready = self.timer.readable().await?;
        let mut rings = [0; 8];
        match rustix::io::read(ready.get_inner(), &mut rings) {
            Ok(_) => self.set = None,
            // The timer was set again after ringing.
            Err(rustix::io::Errno::AGAIN) => ready.clear_ready(),
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }
}

fn once(left: Duration) -> Itimerspec {
    let value = Timespec {
        tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: left.subsec_nanos().into(),
    };
    Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: value }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn it_never_rings_early_and_a_sooner_time_replaces_a_later_one() {
        let mut alarm = Alarm::start().unwrap();
        let start = Instant::now();
        let later = start + Duration::from_secs(60);
        let dropped = tokio::time::timeout(Duration::from_millis(5), alarm.wait_until(later)).await;
        assert!(dropped.is_err());
        for n in 1..=20 {
            let at = start + Duration::from_millis(10 + 3 * n);
            alarm.wait_until(at).await;
            assert!(Instant::now() >= at);
        }
        assert!(start.elapsed() < Duration::from_secs(30));
    }

    #[tokio::test]
    async fn a_moment_that_is_over_does_not_wait() {
        let mut alarm = Alarm::start().unwrap();
        alarm.wait_until(Instant::now()).await;
    }

    #[tokio::test]
    async fn a_moment_that_is_over_keeps_the_runtime_from_nobody() {
        let mut alarm = Alarm::start().unwrap();
        let over = Instant::now();
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
        let at = Instant::now() + Duration::from_millis(2);
        drop(tokio::time::timeout(Duration::ZERO, alarm.wait_until(at)).await);
        std::thread::sleep(Duration::from_millis(5));
        let next = Instant::now() + Duration::from_millis(20);
        alarm.wait_until(next).await;
        assert!(Instant::now() >= next);
    }
}
