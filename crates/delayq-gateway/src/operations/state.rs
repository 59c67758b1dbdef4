//! The state of an operation, in the note and for clients.

use super::estimate::Estimate;
use super::order::{Deed, Order};
use crate::tenant::{Names, Tenant};
use delayq::admin::{Acted, Cut, SelectCursor, Selected};
use delayq::protocol::RecordId;
use delayq::{Group, Target, Topic, UnixMillis};
use delayq_service::json::add_time;
use delayq_service::when::time;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Maximum messages that were not changed which an operation names.
const MAX_NAMED: usize = 20;

/// The state in the note.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Operation {
    pub(crate) id: String,
    pub(crate) order: Order,
    /// Name of the caller's token; `None`: no token was needed.
    pub(crate) by: Option<String>,
    pub(crate) began_ms: u64,
    cut: String,
    cursor: String,
    /// The number of the next call to a shard.
    step: u64,
    total: u64,
    is_exact: bool,
    looked_at: u64,
    outcomes: BTreeMap<String, u64>,
    unchanged: Vec<Unchanged>,
    pub(crate) phase: Phase,
    /// The caller of the abort.
    aborted_by: Option<String>,
    /// The error of a failed operation.
    why: Option<String>,
    ended_ms: Option<u64>,
    /// The process that advances the operation; `None`: none does.
    pub(crate) holder: Option<String>,
    /// Number of changes of the holder.
    takeovers: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Phase {
    Running,
    Aborting,
    Aborted,
    Done,
    Failed,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Unchanged {
    topic: Topic,
    id: String,
    group: Option<String>,
    outcome: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

/// The position of an operation.
pub(crate) struct Position {
    pub(crate) cut: Cut,
    pub(crate) cursor: SelectCursor,
}

// === impl Phase ===

impl Phase {
    pub(crate) const fn is_over(self) -> bool {
        matches!(self, Self::Aborted | Self::Done | Self::Failed)
    }

    const fn word(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Aborting => "aborting",
            Self::Aborted => "aborted",
            Self::Done => "done",
            Self::Failed => "failed",
        }
    }
}

// === impl Operation ===

impl Operation {
    pub(crate) fn new(id: String, order: Order, by: Option<String>, estimate: &Estimate) -> Self {
        let cut = &estimate.cut;
        Self {
            id,
            order: order.resolved(cut.at),
            by,
            began_ms: cut.at.get(),
            cut: cut.to_string(),
            cursor: SelectCursor::default().to_string(),
            step: 0,
            total: estimate.count,
            is_exact: estimate.is_exact,
            looked_at: 0,
            outcomes: BTreeMap::new(),
            unchanged: Vec::new(),
            phase: Phase::Running,
            aborted_by: None,
            why: None,
            ended_ms: None,
            holder: None,
            takeovers: 0,
        }
    }

    pub(crate) fn taken_by(&mut self, holder: &str) {
        self.takeovers += u64::from(self.step > 0 || self.holder.is_some());
        self.holder = Some(holder.to_owned());
    }

    /// # Errors
    /// The note is of another version of the gateway.
    pub(crate) fn position(&self) -> Result<Position, String> {
        Ok(Position { cut: self.cut.parse()?, cursor: self.cursor.parse()? })
    }

    /// The record of the next call: a shard carries each call out once.
    pub(crate) fn record(&self) -> RecordId {
        RecordId::of([b"operation".as_slice(), self.id.as_bytes(), &self.step.to_be_bytes()])
    }

    /// Notes the outcomes of a call; `targets` is empty for the call of a former holder.
    pub(crate) fn acted(&mut self, topic: &Topic, targets: &[Target], outcomes: &[Acted]) {
        self.step += 1;
        for (place, acted) in outcomes.iter().enumerate() {
            self.count(acted.word(), 1);
            if let (Some(target), false) = (targets.get(place), is_done(acted)) {
                self.name(topic, target, acted);
            }
        }
    }

    /// Notes a page after the calls for the page.
    pub(crate) fn looked(&mut self, page: &Selected, next: Option<&SelectCursor>) {
        self.looked_at += (page.messages.len() + page.changed.len()) as u64;
        let changed = page.changed.iter().filter(|listed| !self.order.may_have_moved(listed));
        let changed = changed.filter(|listed| self.order.fits(listed)).count();
        self.count("changed", changed as u64);
        if let Some(next) = next {
            self.cursor = next.to_string();
        }
    }

    pub(crate) fn abort(&mut self, by: Option<&str>) {
        self.phase = Phase::Aborting;
        self.aborted_by = Some(by.unwrap_or_default().to_owned());
    }

    /// Takes over an abort that another process wrote.
    pub(crate) fn adopt(&mut self, other: &Self) {
        if !self.phase.is_over() {
            self.phase = other.phase;
            self.aborted_by.clone_from(&other.aborted_by);
        }
    }

    pub(crate) fn end(&mut self, phase: Phase, at: UnixMillis, why: Option<String>) {
        (self.phase, self.ended_ms, self.why, self.holder) = (phase, Some(at.get()), why, None);
    }

    pub(crate) fn why(&self) -> Option<String> {
        self.why.clone()
    }

    /// With the names that the caller knows; the caller may see the operation. A tenant sees no error of Redis, which may have an address.
    pub(crate) fn seen_by(self, names: &Names) -> Self {
        if names.tenant().is_none() {
            return self;
        }
        let topics = self.order.topics.iter().filter_map(|topic| names.shown_topic(topic)).collect();
        let group = self.order.group.as_ref().and_then(|group| names.shown_group(group));
        let order = Order { topics, group, ..self.order };
        let unchanged = self.unchanged.into_iter().filter_map(|one| one.seen_by(names)).collect();
        let why = self.why.map(|_| "the deployment did not carry out the call".to_owned());
        Self { order, unchanged, why, ..self }
    }

    pub(crate) const fn ended_ms(&self) -> Option<u64> {
        self.ended_ms
    }

    /// For clients.
    pub(crate) fn shown(&self) -> Value {
        let unchanged = serde_json::to_value(&self.unchanged).expect("names are text");
        let mut value = json!({
            "id": self.id, "action": self.order.shown_action(), "filter": self.order.shown_filter(),
            "state": self.phase.word(), "by": self.by, "reason": self.order.reason,
            "tenant": self.order.tenant.as_ref().map(Tenant::name), "total": self.total, "exact": self.is_exact, "looked_at": self.looked_at, "done": self.done(),
            "outcomes": self.outcomes, "unchanged": unchanged, "takeovers": self.takeovers,
        });
        if let Deed::Reschedule(at) = self.order.action {
            add_time(&mut value, "due", Some(UnixMillis::new(at)));
        }
        if let Some(why) = &self.why {
            value["why"] = why.as_str().into();
        }
        if let Some(by) = &self.aborted_by {
            value["aborted_by"] = by.as_str().into();
        }
        add_time(&mut value, "began", Some(UnixMillis::new(self.began_ms)));
        add_time(&mut value, "ended", self.ended_ms.map(UnixMillis::new));
        value
    }

    /// Number of messages that the action changed.
    fn done(&self) -> u64 {
        ["cancelled", "buried", "ready", "delayed"].iter().filter_map(|word| self.outcomes.get(*word)).sum()
    }

    fn count(&mut self, word: &str, messages: u64) {
        if messages > 0 {
            *self.outcomes.entry(word.to_owned()).or_default() += messages;
        }
    }

    fn name(&mut self, topic: &Topic, target: &Target, acted: &Acted) {
        if self.unchanged.len() == MAX_NAMED {
            return;
        }
        let reason = match acted {
            Acted::Refused(why) | Acted::Failed(why) => Some(why.clone()),
            _ => None,
        };
        self.unchanged.push(Unchanged {
            topic: topic.clone(),
            id: target.id.to_string(),
            group: target.group.as_ref().map(ToString::to_string),
            outcome: acted.word().to_owned(),
            reason,
        });
    }
}

// === impl Unchanged ===

impl Unchanged {
    /// `None`: the message is not the tenant's.
    fn seen_by(self, names: &Names) -> Option<Self> {
        let group = self.group.and_then(|group| names.shown_group(&Group::new(group).ok()?));
        Some(Self {
            topic: names.shown_topic(&self.topic)?,
            group: group.map(|group| group.to_string()),
            reason: self.reason.map(|reason| names.shown_text(&reason)),
            ..self
        })
    }
}

// === impl Order ===

impl Order {
    pub(crate) fn shown_action(&self) -> &'static str {
        self.action().word()
    }

    pub(crate) fn shown_filter(&self) -> Value {
        let at = |ms: Option<u64>| ms.map(|ms| time(UnixMillis::new(ms)));
        json!({
            "topics": self.topics, "group": self.group, "state": self.state, "from": at(self.from_ms),
            "to": at(self.to_ms), "headers": self.headers, "reason": self.dead_reason,
        })
    }
}

const fn is_done(acted: &Acted) -> bool {
    matches!(acted, Acted::Cancelled | Acted::Buried | Acted::Moved { .. })
}
