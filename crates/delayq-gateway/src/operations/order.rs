//! The action and the filter of an operation.

use crate::tenant::{Names, Tenant};
use delayq::admin::{Action, Listed, SelectState, Selection, TimeRange};
use delayq::{Due, Group, Shift, State, Topic, UnixMillis};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// The action and the filter of an operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Order {
    pub(crate) action: Deed,
    pub(crate) topics: Vec<Topic>,
    pub(crate) group: Option<Group>,
    pub(crate) state: String,
    pub(crate) from_ms: Option<u64>,
    pub(crate) to_ms: Option<u64>,
    pub(crate) headers: BTreeMap<String, String>,
    /// In the reasons of dead letters.
    pub(crate) dead_reason: Option<String>,
    /// The reason that the caller gave.
    pub(crate) reason: String,
    /// The tenant whose messages alone are acted on; `None`: all.
    #[serde(default)]
    pub(crate) tenant: Option<Tenant>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Deed {
    Cancel,
    Promote,
    /// To this time.
    Reschedule(u64),
    /// To this many ms after the cut.
    RescheduleAfter(u64),
    /// By this many ms.
    Shift(i64),
    /// After this many ms.
    Replay(u64),
    Bury,
}

// === impl Order ===

impl Order {
    /// Makes a delay a time, which is the same for every message.
    pub(crate) fn resolved(self, cut: UnixMillis) -> Self {
        let action = match self.action {
            Deed::RescheduleAfter(delay) => Deed::Reschedule(cut.get() + delay),
            action => action,
        };
        Self { action, ..self }
    }

    pub(crate) fn selection(&self) -> Selection {
        let all = TimeRange::ALL;
        Selection {
            topics: self.topics.clone(),
            group: self.group.clone(),
            state: state_named(&self.state).unwrap_or(SelectState::Pending),
            range: TimeRange {
                from: self.from_ms.map_or(all.from, UnixMillis::new),
                to: self.to_ms.map_or(all.to, UnixMillis::new),
            },
        }
    }

    /// For dead letters of a bury, the reason of the operation is the reason of the death.
    pub(crate) fn action(&self) -> Action {
        match self.action {
            Deed::Cancel => Action::Cancel,
            Deed::Promote => Action::Promote,
            Deed::Reschedule(at) => Action::Reschedule(Due::At(UnixMillis::new(at))),
            Deed::RescheduleAfter(delay) => Action::Reschedule(Due::After(Duration::from_millis(delay))),
            Deed::Shift(by) => Action::Shift(Shift::from_millis(by)),
            Deed::Replay(delay) => Action::Replay(Duration::from_millis(delay)),
            Deed::Bury => Action::Bury(self.reason.clone()),
        }
    }

    /// True if the filter reads messages. A program with a login to Redis may have put messages of others into a group of a tenant.
    pub(crate) fn reads(&self) -> bool {
        let may_have_others = self.tenant.is_some() && self.topics.is_empty();
        may_have_others || !self.headers.is_empty() || self.dead_reason.is_some()
    }

    pub(crate) fn fits(&self, listed: &Listed) -> bool {
        let Ok(envelope) = &listed.envelope else { return false };
        if Names::of(self.tenant.clone()).shown_topic(&listed.topic).is_none() {
            return false;
        }
        let has = |(name, value): (&String, &String)| {
            envelope.headers.iter().any(|(known, has)| known.eq_ignore_ascii_case(name) && has == value)
        };
        let dies_so = |text: &String| envelope.reason.as_ref().is_some_and(|reason| reason.contains(text));
        self.headers.iter().all(has) && self.dead_reason.as_ref().is_none_or(dies_so)
    }

    /// True if the operation itself may have moved this message of the selection.
    pub(crate) fn may_have_moved(&self, listed: &Listed) -> bool {
        let Ok(envelope) = &listed.envelope else { return false };
        match self.action {
            Deed::Reschedule(at) => envelope.due.get() == at,
            Deed::Promote => envelope.state == State::Ready,
            Deed::Shift(_) => true,
            Deed::Cancel | Deed::RescheduleAfter(_) | Deed::Replay(_) | Deed::Bury => false,
        }
    }
}

fn state_named(word: &str) -> Option<SelectState> {
    [SelectState::Pending, SelectState::Delayed, SelectState::Ready, SelectState::Dead]
        .into_iter()
        .find(|state| state.word() == word)
}
