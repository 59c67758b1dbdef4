//! The settlements of a stream: one call for all that came during the last call, so that the answers keep the order.

use super::call::{StreamCall, ended};
use crate::problem::Problem;
use crate::routes::reserve::MAX_MESSAGES;
use crate::routes::settle::{SettleItem, settled};
use crate::state::Scope;
use delayq::Settled;

#[derive(Default)]
pub(super) struct Settlements {
    asked: Vec<(u64, SettleItem)>,
    /// Kept over every wait for something else.
    under_way: Option<StreamCall<Vec<SettledFrame>>>,
}

pub(super) struct SettledFrame {
    /// Its number.
    pub(super) frame: u64,
    pub(super) receipt: String,
    pub(super) settled: Result<Settled, Problem>,
}

// === impl Settlements ===

impl Settlements {
    pub(super) fn push(&mut self, frame: u64, item: SettleItem) {
        self.asked.push((frame, item));
    }

    pub(super) fn has_room(&self) -> bool {
        self.asked.len() < usize::from(MAX_MESSAGES)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.asked.is_empty() && self.under_way.is_none()
    }

    pub(super) fn begin(&mut self, scope: &Scope) {
        if self.under_way.is_none() && !self.asked.is_empty() {
            let asked = std::mem::take(&mut self.asked);
            self.under_way = Some(Box::pin(settle(scope.clone(), asked)));
        }
    }

    /// The end of a call. Cancel safe.
    pub(super) async fn ended(&mut self) -> Vec<SettledFrame> {
        ended(&mut self.under_way).await
    }
}

// === impl SettledFrame ===

impl SettledFrame {
    /// True if the client has the message no longer.
    pub(super) fn frees_credit(&self) -> bool {
        let keeps = |settled: &Settled| {
            matches!(settled, Settled::Extended(_) | Settled::ExtendedDoomed(_) | Settled::Failed(_))
        };
        self.settled.as_ref().is_ok_and(|settled| !keeps(settled))
    }

    pub(super) fn is_burial(&self) -> bool {
        matches!(self.settled, Ok(Settled::Buried))
    }
}

async fn settle(scope: Scope, asked: Vec<(u64, SettleItem)>) -> Vec<SettledFrame> {
    let names: Vec<(u64, String)> =
        asked.iter().map(|(frame, item)| (*frame, item.receipt.clone())).collect();
    let items = asked.into_iter().map(|(_, item)| Ok(item)).collect();
    let answers = match scope.signer().await {
        Ok(signer) => settled(&scope, &signer, items).await,
        Err(problem) => names.iter().map(|_| Err(problem.clone())).collect(),
    };
    scope.yield_turn();
    let frame = |((frame, receipt), settled)| SettledFrame { frame, receipt, settled };
    names.into_iter().zip(answers).map(frame).collect()
}
