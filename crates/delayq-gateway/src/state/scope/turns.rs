//! The turns of a tenant: many messages go in steps, so that calls of other tenants come in between.

use super::Scope;
use crate::problem::Problem;
use crate::turns::STEP;
use tokio::sync::OwnedSemaphorePermit;

// === impl Scope ===

impl Scope {
    /// Ends the turn while the request waits for the client, or for a message.
    pub(crate) fn yield_turn(&self) {
        if let Some(turn) = &self.turn {
            turn.pause();
        }
    }

    /// Waits for the turn of a body that has come.
    pub(crate) async fn take_turn(&self, bytes: usize) -> Result<(), Problem> {
        match &self.turn {
            Some(turn) => turn.resume(bytes).await,
            None => Ok(()),
        }
    }

    /// Waits for the turn of a call with so many messages.
    pub(crate) async fn step(&self, messages: usize) -> Result<(), Problem> {
        match &self.turn {
            Some(turn) => turn.step(messages).await,
            None => Ok(()),
        }
    }

    /// Maximum messages of a call, if any caller may have so many.
    pub(crate) fn most_of(&self, most: usize) -> usize {
        if self.turn.is_some() { STEP.min(most) } else { most }
    }

    /// Waits for the turn of a call that is under way together with others.
    pub(super) async fn part(&self, messages: usize) -> Option<OwnedSemaphorePermit> {
        match &self.turn {
            Some(turn) => Some(turn.part(messages).await),
            None => None,
        }
    }

    /// The items of each call, so that calls of other tenants come in between.
    pub(crate) fn steps<I>(&self, items: Vec<I>) -> Vec<Vec<I>> {
        let (most, mut items) = (self.most_of(usize::MAX), items.into_iter().peekable());
        let mut steps = Vec::new();
        while items.peek().is_some() {
            steps.push(items.by_ref().take(most).collect());
        }
        steps
    }
}
