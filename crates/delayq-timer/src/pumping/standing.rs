//! Whether this timer can do its work, and why not: what its readiness says.

use super::{Pumping, health::Health};
use crate::rota::Owned as _;

/// How the timer stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// Redis has not answered yet.
    Starting,
    /// It pumps what it is given.
    Ready,
    /// It gives its shards away, and ends.
    HandingOver,
    /// Redis does not have a shard, or has it otherwise: why.
    Missing(String),
    /// Redis does not answer, or refuses writes.
    Silent,
    /// Another timer has the lock.
    LockedOut(String),
    /// The shards are held.
    Jumped,
    /// Shards that another timer held are held until their clock is proven.
    Held,
    /// It has no shard, and no plan that means none for it: it is not in the group yet, or waits for what it is given.
    Unplaced,
    /// `strict`, and the lease is not trusted.
    Untrusted,
}

// === impl Pumping ===

impl Pumping {
    /// Tells the readiness, where it changed.
    pub(super) fn tell_standing(&mut self) {
        let standing = self.stands();
        if standing != self.standing {
            match standing.text() {
                Some(why) => self.parts.condition.unready(why),
                None => self.parts.condition.ready(),
            }
            self.standing = standing;
        }
    }

    fn stands(&self) -> Standing {
        if self.stopping.is_some() {
            return Standing::HandingOver;
        }
        if let Some(owner) = self.locked_out.values().next() {
            return Standing::LockedOut(owner.clone());
        }
        match &self.health {
            Health::Missing(why) => return Standing::Missing(why.clone()),
            Health::Silent { .. } => return Standing::Silent,
            Health::Starting => return Standing::Starting,
            Health::Well => {}
        }
        if self.guard.is_jumped() {
            Standing::Jumped
        } else if self.holding.any() {
            Standing::Held
        } else if !self.may_pump() {
            Standing::Untrusted
        } else if self.is_unplaced() {
            Standing::Unplaced
        } else {
            Standing::Ready
        }
    }

    fn is_unplaced(&self) -> bool {
        self.schedule.count() == 0 && self.parts.lock.is_zero() && !self.parts.handle.view().is_spare()
    }
}

// === impl Standing ===

impl Standing {
    /// Why it is not ready.
    fn text(&self) -> Option<String> {
        let why = match self {
            Self::Ready => return None,
            Self::Starting => "starting",
            Self::HandingOver => "handing over",
            Self::Missing(why) => why,
            Self::Silent => "Redis cannot be used",
            Self::LockedOut(owner) => return Some(format!("{owner} has the lock")),
            Self::Jumped => "Redis's clock jumped: its shards are held",
            Self::Held => "shards are held until Redis's clock is proven",
            Self::Unplaced => "no shard yet, and no plan that spares this timer",
            Self::Untrusted => "strict, and etcd does not answer: nothing is pumped",
        };
        Some(why.to_owned())
    }
}
