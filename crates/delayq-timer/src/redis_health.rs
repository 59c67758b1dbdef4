//! How Redis is doing: whether it answers, whether the shards are there, and whether others should have them.

use crate::events;
use crate::hindrance::Hindrance;
use crate::metrics::TimerMetrics;
use delayq::Error;
use delayq::protocol::ShardId;
use std::time::Instant;

/// What the last answers said.
pub(crate) struct RedisHealth {
    state: State,
    hindrance: Hindrance,
    /// Whether Redis is being asked for its clock.
    asking: bool,
}

enum State {
    Starting,
    Well,
    Silent { since: Instant },
    Missing(String),
}

/// Why Redis is of no use.
pub(crate) enum Ailment<'a> {
    /// It has not answered yet.
    Starting,
    /// It does not answer, or refuses writes.
    Silent,
    /// It does not have a shard, or has it otherwise: why.
    Missing(&'a str),
}

// === impl RedisHealth ===

impl RedisHealth {
    /// `alone`: there is nobody to take the shards.
    pub(crate) fn new(alone: bool) -> Self {
        let hindrance = if alone { Hindrance::Alone } else { Hindrance::none() };
        Self { state: State::Starting, hindrance, asking: false }
    }

    pub(crate) fn ailment(&self) -> Option<Ailment<'_>> {
        match &self.state {
            State::Well => None,
            State::Starting => Some(Ailment::Starting),
            State::Silent { .. } => Some(Ailment::Silent),
            State::Missing(why) => Some(Ailment::Missing(why)),
        }
    }

    /// Whether Redis is to be asked more often than usual.
    pub(crate) fn is_poor(&self) -> bool {
        !matches!(self.state, State::Well) || self.hindrance.is_hindered()
    }

    /// When [`Self::turn`] has something to say.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.hindrance.next()
    }

    /// Whether others should have the shards, where that changed.
    pub(crate) fn turn(&mut self, now: Instant, has_shards: bool, metrics: &TimerMetrics) -> Option<bool> {
        let hindered = self.hindrance.turn(now, has_shards).then(|| self.hindrance.is_hindered())?;
        events::hindrance_changed(metrics, hindered);
        Some(hindered)
    }

    /// From now on shards are given away whatever Redis does.
    pub(crate) fn leave(&mut self) {
        self.hindrance = Hindrance::Alone;
    }

    /// Whether to ask for the clock now: one question is out at most, until [`Self::asked`].
    pub(crate) fn ask(&mut self) -> bool {
        !std::mem::replace(&mut self.asking, true)
    }

    pub(crate) fn asked(&mut self) {
        self.asking = false;
    }

    /// A call for a shard failed. Whether that is news: Redis does not answer any more.
    pub(crate) fn failed(&mut self, shard: ShardId, error: &Error, redis: &str, now: Instant) -> bool {
        if !is_missing(error) {
            return self.unanswered(error, now);
        }
        if !matches!(self.state, State::Missing(_)) {
            events::shard_missing(shard, error, redis);
            self.state = State::Missing(error.to_string());
        }
        false
    }

    /// A call for another's shard failed. Whether that is news.
    pub(crate) fn unanswered(&mut self, error: &Error, now: Instant) -> bool {
        if is_missing(error) {
            return false;
        }
        self.hindrance.failed(now);
        let is_news = matches!(self.state, State::Well | State::Starting);
        if is_news {
            events::redis_lost(error);
            self.state = State::Silent { since: now };
        }
        is_news
    }

    /// A script that may write was answered. Whether Redis was silent before. `behind`: a shard could not be claimed yet.
    pub(crate) fn answered(&mut self, behind: bool, now: Instant) -> bool {
        self.hindrance.answered(now);
        let silent_since = match self.state {
            // One missing shard is enough not to be ready, whatever the others answer.
            State::Missing(_) if behind => return false,
            State::Silent { since } => Some(since),
            _ => None,
        };
        self.state = State::Well;
        if let Some(since) = silent_since {
            events::redis_back(now.saturating_duration_since(since));
        }
        silent_since.is_some()
    }
}

/// Whether Redis answered, and does not have the shard as this process knows it.
pub(crate) fn is_missing(error: &Error) -> bool {
    matches!(error, Error::Uninitialised(_) | Error::Layout { .. } | Error::Deployment(_))
}
