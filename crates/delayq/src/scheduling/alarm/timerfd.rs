//! The bell of Linux: a timer that is a file.

use rustix::fd::OwnedFd;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use std::io;
use std::time::{Duration, Instant};
use tokio::io::unix::AsyncFd;

#[derive(Debug)]
pub(super) struct Bell {
    timer: AsyncFd<OwnedFd>,
    set: Option<Instant>,
}

// === impl Bell ===

impl Bell {
    pub(super) fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        #[allow(
            deprecated,
            reason = "the unsafe replacement requires an open file descriptor, which an OwnedFd guarantees"
        )]
        let timer = AsyncFd::new(timer)?;
        Ok(Self { timer, set: None })
    }

    /// Returns at `at`, which is `left` from now, or sooner.
    pub(super) async fn ring(&mut self, at: Instant, left: Duration) -> io::Result<()> {
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
