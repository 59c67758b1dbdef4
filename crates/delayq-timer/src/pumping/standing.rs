//! Derives the timer's readiness and the reason for being unready.

use super::Pumping;
use crate::events;
use crate::progress::Stall;
use crate::redis_health::Ailment;
use delayq_service::Condition;

/// The standing of the timer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// Redis has not answered yet.
    Starting,
    /// The timer pumps the shards given to it.
    Ready,
    /// The timer gives its shards away, and ends.
    HandingOver,
    /// Redis lacks a shard, or keeps another layout or deployment than this process knows: the reason.
    Missing(String),
    /// Redis does not answer, or refuses writes; with several nodes, the node's name.
    Silent(Option<String>),
    /// Another timer has the lock.
    LockedOut(String),
    /// The shards are held because a clock jumped.
    Jumped,
    /// Shards that another timer left held stay held until their clock is proven.
    Held,
    /// The timer has no shard, and no plan intends that: the timer is not in the fleet yet, or waits for its shards.
    Unplaced,
    /// etcd answers but takes no writes: the reason. Planned shards are pumped.
    Unled(String),
    /// The fleet in etcd belongs to another deployment: the reason not to join.
    Foreign(String),
    /// Due messages do not move, though nothing else is wrong.
    Stalled(Stall),
}

/// The readiness condition, and the standing reported last.
pub(super) struct Reported {
    condition: Condition,
    standing: Standing,
}

// === impl Pumping ===

impl Pumping {
    pub(super) fn stands(&self) -> Standing {
        if self.stopping.is_some() {
            return Standing::HandingOver;
        }
        if let Some(owner) = self.owning.locked_out_by() {
            return Standing::LockedOut(owner.to_owned());
        }
        match self.health.ailment() {
            Some(Ailment::Missing(why)) => Standing::Missing(why.to_owned()),
            Some(Ailment::Silent(node)) => {
                Standing::Silent((self.nodes.in_use().len() > 1).then(|| self.nodes[node].name.clone()))
            }
            Some(Ailment::Starting) => Standing::Starting,
            None if self.nodes.is_any_jumped() => Standing::Jumped,
            None if self.nodes.hold_any() => Standing::Held,
            None => self.stands_with_etcd(),
        }
    }

    fn stands_with_etcd(&self) -> Standing {
        if let Some(why) = self.fleet.handle().foreign() {
            return Standing::Foreign(format!("{why} (Redis at {})", self.client.address()));
        }
        if let Some(stall) = self.stall {
            return Standing::Stalled(stall);
        }
        match self.fleet.handle().refusal() {
            Some(why) => Standing::Unled(why),
            None if self.is_unplaced() => Standing::Unplaced,
            None => Standing::Ready,
        }
    }

    fn is_unplaced(&self) -> bool {
        self.schedule.count() == 0 && !self.is_single() && !self.fleet.handle().view().is_spare()
    }
}

// === impl Reported ===

impl Reported {
    pub(super) const fn new(condition: Condition) -> Self {
        Self { condition, standing: Standing::Starting }
    }

    /// Updates the readiness if the standing changed.
    pub(super) fn report(&mut self, standing: Standing) {
        if standing != self.standing {
            if let Standing::Foreign(why) = &standing {
                events::kept_out(why);
            }
            match standing.text() {
                Some(why) => self.condition.unready(why),
                None => self.condition.ready(),
            }
            self.standing = standing;
        }
    }
}

// === impl Standing ===

impl Standing {
    /// Returns true if the clock and the ownership are trusted, and Redis answers.
    pub(super) const fn is_well(&self) -> bool {
        matches!(self, Self::Ready | Self::Stalled(_) | Self::Unled(_))
    }

    /// The reason for being unready; `None` when ready.
    fn text(&self) -> Option<String> {
        let why = match self {
            Self::Ready => return None,
            Self::Starting => "starting",
            Self::HandingOver => "handing over",
            Self::Missing(why) | Self::Foreign(why) => why,
            Self::Silent(None) => "Redis cannot be used",
            Self::Silent(Some(node)) => {
                return Some(format!("Redis node {node} cannot be used"));
            }
            Self::LockedOut(owner) => return Some(format!("{owner} has the lock")),
            Self::Jumped => "Redis's clock jumped: its shards are held",
            Self::Held => "shards are held until Redis's clock is proven",
            Self::Unled(why) => {
                return Some(format!("etcd takes no writes ({why}): no plan replaces a timer that ends"));
            }
            Self::Unplaced => "no shard yet, and no plan that spares this timer",
            Self::Stalled(Stall::Still) => "something is overdue, and nothing has moved for 2 s",
            Self::Stalled(Stall::Blocked(shard)) => {
                return Some(format!("due messages of shard {shard} cannot be moved: the log names why"));
            }
            Self::Stalled(Stall::Failing(shard)) => {
                return Some(format!("the pumps of shard {shard} have failed for 2 s"));
            }
        };
        Some(why.to_owned())
    }
}
