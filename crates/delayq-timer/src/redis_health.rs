//! How the Redises are doing: whether each answers, whether the shards are there, and whether others should have them.

use crate::events;
use crate::hindrance::Hindrance;
use crate::metrics::TimerMetrics;
use crate::node_id::NodeId;
use delayq::Error;
use delayq::protocol::ShardId;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

/// What the last answers said.
pub(crate) struct RedisHealth {
    /// Those that have answered, or failed to.
    nodes: BTreeMap<NodeId, State>,
    hindrance: Hindrance,
    /// The nodes that are being asked for their clocks.
    asking: BTreeSet<NodeId>,
}

enum State {
    Well,
    Silent { since: Instant },
    Missing(String),
}

/// Why a Redis is of no use.
pub(crate) enum Ailment<'a> {
    /// None has answered yet.
    Starting,
    /// This one does not answer, or refuses writes.
    Silent(NodeId),
    /// It does not have a shard, or has it otherwise: why.
    Missing(&'a str),
}

// === impl RedisHealth ===

impl RedisHealth {
    /// `alone`: there is nobody to take the shards.
    pub(crate) fn new(alone: bool) -> Self {
        let hindrance = if alone { Hindrance::Alone } else { Hindrance::none() };
        Self { nodes: BTreeMap::new(), hindrance, asking: BTreeSet::new() }
    }

    pub(crate) fn ailment(&self) -> Option<Ailment<'_>> {
        let missing = self.nodes.values().find_map(|state| match state {
            State::Missing(why) => Some(Ailment::Missing(why)),
            State::Well | State::Silent { .. } => None,
        });
        let silent = self.nodes.iter().find_map(|(&node, state)| match state {
            State::Silent { .. } => Some(Ailment::Silent(node)),
            State::Well | State::Missing(_) => None,
        });
        missing.or(silent).or_else(|| self.nodes.is_empty().then_some(Ailment::Starting))
    }

    /// Whether a Redis is to be asked more often than usual.
    pub(crate) fn is_poor(&self, node: NodeId) -> bool {
        !matches!(self.nodes.get(&node), Some(State::Well)) || self.hindrance.is_hindered()
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

    /// Whether to ask a node for its clock now: one question is out at most, until [`Self::asked`].
    pub(crate) fn ask(&mut self, node: NodeId) -> bool {
        self.asking.insert(node)
    }

    pub(crate) fn asked(&mut self, node: NodeId) {
        self.asking.remove(&node);
    }

    /// A node has no shards any more: how it is does not matter.
    pub(crate) fn forget(&mut self, node: NodeId) {
        self.nodes.remove(&node);
    }

    /// A call for a shard failed. Whether that is news: its Redis does not answer any more.
    pub(crate) fn failed(
        &mut self,
        (node, shard): (NodeId, ShardId),
        error: &Error,
        redis: &str,
        now: Instant,
    ) -> bool {
        if !is_missing(error) {
            return self.unanswered(node, error, now);
        }
        if !matches!(self.nodes.get(&node), Some(State::Missing(_))) {
            events::shard_missing(shard, error, redis);
            self.nodes.insert(node, State::Missing(error.to_string()));
        }
        false
    }

    /// A call for another's shard failed. Whether that is news.
    pub(crate) fn unanswered(&mut self, node: NodeId, error: &Error, now: Instant) -> bool {
        if is_missing(error) || is_on_the_move(error) {
            return false;
        }
        self.hindrance.failed(now);
        let is_news = matches!(self.nodes.get(&node), None | Some(State::Well));
        if is_news {
            events::redis_lost(error);
            self.nodes.insert(node, State::Silent { since: now });
        }
        is_news
    }

    /// A script that may write was answered. Whether this Redis was silent before. `behind`: a shard could not be claimed
    /// yet.
    pub(crate) fn answered(&mut self, node: NodeId, behind: bool, now: Instant) -> bool {
        self.hindrance.answered(now);
        let silent_since = match self.nodes.get(&node) {
            Some(State::Well) => return false,
            // One missing shard is enough not to be ready, whatever the others answer.
            Some(State::Missing(_)) if behind => return false,
            Some(State::Silent { since }) => Some(*since),
            Some(State::Missing(_)) | None => None,
        };
        self.nodes.insert(node, State::Well);
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

/// Whether a node answered that the shard is on its way to another one: nothing is wrong with either.
fn is_on_the_move(error: &Error) -> bool {
    matches!(error, Error::Redis { code, .. } if ["ASK", "MOVED", "TRYAGAIN"].contains(&code.as_str()))
}
