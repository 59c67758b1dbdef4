//! Derives the timer's readiness and the reason for being unready.

use crate::events;
use crate::member::Member;
use crate::progress::Stall;
use crate::redis_health::Ailment;
use crate::redises::Redises;
use crate::shards::PumpedShards;
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
    /// The standing of the timer now.
    pub(super) fn of(shards: &PumpedShards, redises: &Redises, member: &Member, is_stopping: bool) -> Self {
        if is_stopping {
            return Self::HandingOver;
        }
        if let Some(owner) = member.ownership.owning().locked_out_by() {
            return Self::LockedOut(owner.to_owned());
        }
        let nodes = redises.nodes();
        match redises.health.ailment() {
            Some(Ailment::Missing(why)) => Self::Missing(why.to_owned()),
            Some(Ailment::Silent(node)) => {
                Self::Silent((nodes.in_use().len() > 1).then(|| nodes[node].name.clone()))
            }
            Some(Ailment::Starting) => Self::Starting,
            None if nodes.is_any_jumped() => Self::Jumped,
            None if shards.schedule.hold_any() => Self::Held,
            None => Self::with_etcd(shards, member),
        }
    }

    fn with_etcd(shards: &PumpedShards, member: &Member) -> Self {
        let handle = member.fleet().handle();
        if let Some(why) = handle.foreign() {
            return Self::Foreign(format!("{why} (Redis at {})", member.redis_address()));
        }
        if let Some(stall) = shards.stall() {
            return Self::Stalled(stall);
        }
        let is_placed = shards.schedule.count() > 0 || member.is_single() || handle.view().is_spare();
        match handle.refusal() {
            Some(why) => Self::Unled(why),
            None if !is_placed => Self::Unplaced,
            None => Self::Ready,
        }
    }

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
            Self::Jumped => "Redis's clock jumped: holding its shards",
            Self::Held => "shards are held until Redis's clock is proven",
            Self::Unled(why) => {
                return Some(format!(
                    "etcd accepts no writes ({why}): no plan can replace a timer that stops"
                ));
            }
            Self::Unplaced => "no shards yet, and no plan that leaves this timer without shards",
            Self::Stalled(Stall::Still) => "messages are overdue, and none has moved for 2 s",
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
