//! Due times that are spread by id: a daily window, or a jitter.

use crate::clock::host_now;
use delayq::Due;
use delayq::protocol::Window;
use std::time::Duration;

/// How a due time is spread. Both together are refused, since a window spreads by itself.
#[derive(Clone, Debug, Default)]
pub struct Spreading {
    /// The daily window.
    pub between: Option<Window>,
    /// The longest delay.
    pub jitter: Option<Duration>,
}

// === impl Spreading ===

impl Spreading {
    /// The due time of an id, not before `due`; a message without an id gets a random time. A window is found by this host's
    /// clock.
    ///
    /// # Errors
    /// A sentence, if both are given, or no window opens before the year 10000.
    pub fn due(&self, due: Due, id: Option<&str>) -> Result<Due, String> {
        let random = || fastrand::u64(..).to_string();
        let id = || id.map_or_else(random, str::to_owned);
        match (&self.between, self.jitter) {
            (None, None) => Ok(due),
            (None, Some(longest)) => Ok(due.jitter(&id(), longest)),
            (Some(window), None) => {
                let earliest = match due {
                    Due::At(at) => at,
                    Due::After(delay) => host_now() + delay,
                };
                window.due(&id(), earliest).map(Due::At).map_err(|fault| fault.to_string())
            }
            (Some(_), Some(_)) => Err("between and jitter are both set; keep one".to_owned()),
        }
    }
}
