//! Decides when a stream of changes has been quiet long enough to act on. Pure.

use std::time::Duration;
use tokio::time::Instant;

/// Collects changes until no change came for a while, or the first change has waited for too long.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quiet {
    quiet: Duration,
    at_most: Duration,
    waiting: Option<Burst>,
}

#[derive(Clone, Copy, Debug)]
struct Burst {
    first: Instant,
    last: Instant,
}

// === impl Quiet ===

impl Quiet {
    pub(crate) fn new(quiet: Duration, at_most: Duration) -> Self {
        Self { quiet, at_most, waiting: None }
    }

    pub(crate) fn changed(&mut self, now: Instant) {
        let first = self.waiting.map_or(now, |waiting| waiting.first);
        self.waiting = Some(Burst { first, last: now });
    }

    /// `None` without changes.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.waiting.map(|waiting| (waiting.last + self.quiet).min(waiting.first + self.at_most))
    }

    pub(crate) fn done(&mut self) {
        self.waiting = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn it_waits_for_quiet_but_not_for_ever() {
        let ms = Duration::from_millis;
        let t0 = Instant::now();
        let mut quiet = Quiet::new(ms(100), ms(250));
        assert_eq!(quiet.due(), None);
        for (at, due) in [(0, 100), (80, 180), (160, 250), (240, 250)] {
            quiet.changed(t0 + ms(at));
            assert_eq!(quiet.due(), Some(t0 + ms(due)), "change at {at}");
        }
        quiet.done();
        assert_eq!(quiet.due(), None);
    }
}
