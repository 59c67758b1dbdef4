//! Decides how long a member may trust that its lease still lives: a state machine without a clock of its own.
//!
//! ```text
//!            granted                 until passed, no answer
//! Joining ───────────► Trusted ─────────────────────────────► Degraded
//!                       ▲  ▲ │ etcd says gone      answered │   │
//!                granted│  └─┼──────────────────────────────┘   │ etcd says gone
//!                       │    ▼                                  ▼
//!                       └── Lost ◄──────────────────────────────┘
//! any but Left ──drain──► Draining (a lease that is gone meanwhile: Left) ──leave──► Left
//! ```

use std::time::Duration;
use tokio::time::Instant;

/// A member's standing with etcd.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Trust {
    /// The member has no lease yet, and no planned shards.
    #[default]
    Joining,
    /// The lease certainly lives until `until`; `None`: forever (single mode).
    Trusted {
        /// The end of the trust, unless a keep-alive is answered before.
        until: Option<Instant>,
    },
    /// etcd does not answer and the trusted time has passed: the member hears of no newer plan.
    Degraded {
        /// Time of the change to this state.
        since: Instant,
    },
    /// etcd answered that the lease is gone: no plan counts on this member, which asks for a new lease. The member
    /// keeps pumping its shards until new owners fence them.
    Lost {
        /// Time of the change to this state.
        since: Instant,
    },
    /// The member gives its shards away and takes none.
    Draining {
        /// The end of the trust in the lease.
        until: Option<Instant>,
    },
    /// The member has left.
    Left,
}

/// An event that changes the trust.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signal {
    /// A lease was granted: the time of the request, and the granted time to live.
    Granted { sent: Instant, ttl: Duration },
    /// A keep-alive was answered: the time of sending, and the renewed time to live.
    Answered { sent: Instant, ttl: Duration },
    /// Time passed without an answer.
    Tick,
    /// etcd answered that the lease is gone.
    Gone,
    /// The operator wants the member to drain.
    Drain,
    /// The member is leaving.
    Leave,
}

// === impl Trust ===

impl Trust {
    /// Returns true if the lease is trusted at this moment. A process that was frozen gets the right answer here even
    /// before its tasks ran.
    pub fn is_trusted(&self, now: Instant) -> bool {
        match self {
            Self::Trusted { until } | Self::Draining { until } => until.is_none_or(|until| now < until),
            Self::Joining | Self::Degraded { .. } | Self::Lost { .. } | Self::Left => false,
        }
    }

    /// The state's name, for logs and metrics.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Joining => "joining",
            Self::Trusted { .. } => "trusted",
            Self::Degraded { .. } => "degraded",
            Self::Lost { .. } => "lost",
            Self::Draining { .. } => "draining",
            Self::Left => "left",
        }
    }

    /// Returns true if both are the same state, whatever their times.
    pub fn same_kind(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }

    /// The time at which the state must be checked again without any event.
    pub(crate) const fn ends_at(&self) -> Option<Instant> {
        match self {
            Self::Trusted { until } => *until,
            _ => None,
        }
    }

    pub(crate) fn after(self, signal: Signal, now: Instant) -> Self {
        match (self, signal) {
            // Joining: waits for the first lease. There is nothing to lose and nothing to answer yet.
            (Self::Joining | Self::Lost { .. }, Signal::Granted { sent, ttl }) => {
                Self::Trusted { until: Some(trusted_until(sent, ttl)) }
            }
            // Trusted: every answer moves the end of trust, but never back.
            (Self::Trusted { until }, Signal::Answered { sent, ttl }) => {
                Self::Trusted { until: later(until, trusted_until(sent, ttl)) }
            }
            (Self::Trusted { until: Some(until) }, Signal::Tick) if now >= until => {
                Self::Degraded { since: now }
            }
            // Degraded: an answer for a lease that still lives restores the trust.
            (Self::Degraded { since }, Signal::Answered { sent, ttl }) => {
                let until = trusted_until(sent, ttl);
                // An answer that was in flight for too long proves nothing about the present.
                if until <= now { Self::Degraded { since } } else { Self::Trusted { until: Some(until) } }
            }
            (Self::Trusted { .. } | Self::Degraded { .. }, Signal::Gone) => Self::Lost { since: now },
            // Draining: renewed like Trusted, and a lease that is gone has nothing left to give.
            (Self::Draining { until }, Signal::Answered { sent, ttl }) => {
                Self::Draining { until: later(until, trusted_until(sent, ttl)) }
            }
            (Self::Draining { .. }, Signal::Gone) => Self::Left,
            (Self::Trusted { until }, Signal::Drain) => Self::Draining { until },
            (Self::Degraded { since }, Signal::Drain) => Self::Draining { until: Some(since) },
            (Self::Joining | Self::Lost { .. }, Signal::Drain) => Self::Left,
            (Self::Left, _) => Self::Left,
            (_, Signal::Leave) => Self::Left,
            // Every other signal belongs to an earlier life of the lease, or changes nothing.
            (state, _) => state,
        }
    }
}

fn later(until: Option<Instant>, new: Instant) -> Option<Instant> {
    until.map(|until| until.max(new))
}

/// The end of trust in a lease renewed by a request sent at `sent`: a fifth, and at least half a second, before the
/// granted time ends. etcd counts from handling the request, which is after the sending; the margin covers clocks that
/// run at different rates and the time that a stop takes.
pub(crate) fn trusted_until(sent: Instant, ttl: Duration) -> Instant {
    let margin = (ttl / 5).max(Duration::from_millis(500));
    sent + ttl.saturating_sub(margin)
}

/// Interval between two keep-alives of a lease: three tries before the lease runs out.
pub(crate) fn keep_alive_every(ttl: Duration) -> Duration {
    ttl / 3
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Duration = Duration::from_secs(10);

    fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[tokio::test]
    async fn every_state_moves_only_as_drawn() {
        let t0 = Instant::now();
        let trusted = Trust::Trusted { until: Some(t0 + s(8)) };
        let draining = Trust::Draining { until: Some(t0 + s(8)) };
        let degraded = Trust::Degraded { since: t0 + s(8) };
        let lost = Trust::Lost { since: t0 + s(9) };
        let granted = Signal::Granted { sent: t0, ttl: TTL };
        let answered = Signal::Answered { sent: t0 + s(3), ttl: TTL };
        let renewed = Some(t0 + s(11));
        let table = [
            (Trust::Joining, granted, s(0), trusted),
            (Trust::Joining, answered, s(0), Trust::Joining),
            (Trust::Joining, Signal::Drain, s(0), Trust::Left),
            (trusted, answered, s(4), Trust::Trusted { until: renewed }),
            (trusted, Signal::Tick, s(7), trusted),
            (trusted, Signal::Tick, s(8), degraded),
            (trusted, Signal::Gone, s(9), lost),
            (trusted, Signal::Drain, s(1), draining),
            (degraded, answered, s(9), Trust::Trusted { until: renewed }),
            (degraded, answered, s(12), degraded),
            (degraded, Signal::Tick, s(20), degraded),
            (degraded, Signal::Gone, s(9), lost),
            (degraded, granted, s(9), degraded),
            (lost, answered, s(9), lost),
            (lost, Signal::Gone, s(9), lost),
            (lost, granted, s(9), trusted),
            (lost, Signal::Drain, s(9), Trust::Left),
            (draining, answered, s(4), Trust::Draining { until: renewed }),
            (draining, Signal::Tick, s(9), draining),
            (draining, Signal::Gone, s(9), Trust::Left),
            (draining, granted, s(9), draining),
            (draining, Signal::Leave, s(9), Trust::Left),
            (trusted, Signal::Leave, s(1), Trust::Left),
            (Trust::Left, granted, s(9), Trust::Left),
            (Trust::Left, Signal::Leave, s(9), Trust::Left),
        ];
        for (before, signal, at, after) in table {
            assert_eq!(before.after(signal, t0 + at), after, "{before:?} and {signal:?} at {at:?}");
        }
    }

    #[tokio::test]
    async fn trust_counts_from_sending_and_ends_before_the_lease() {
        let sent = Instant::now();
        assert_eq!(trusted_until(sent, s(10)), sent + s(8));
        assert_eq!(trusted_until(sent, s(2)), sent + Duration::from_millis(1500));
        assert_eq!(keep_alive_every(s(9)), s(3));
    }

    #[tokio::test]
    async fn trust_never_moves_back() {
        let t0 = Instant::now();
        let trusted = Trust::Trusted { until: Some(t0 + s(100)) };
        let after = trusted.after(Signal::Answered { sent: t0, ttl: TTL }, t0 + s(1));
        assert_eq!(after, trusted);
    }

    #[tokio::test]
    async fn a_process_that_was_frozen_is_not_trusted_before_its_tasks_ran() {
        let t0 = Instant::now();
        let trusted = Trust::Trusted { until: Some(t0 + s(8)) };
        assert!(trusted.is_trusted(t0 + s(7)));
        assert!(!trusted.is_trusted(t0 + s(30)));
        assert!(Trust::Trusted { until: None }.is_trusted(t0 + s(30)));
    }
}
