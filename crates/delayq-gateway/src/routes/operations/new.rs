//! The request that begins an operation, checked by name.

use crate::input::when;
use crate::operations::{Deed, Order};
use crate::problem::Problem;
use crate::routes::change::{reason, shift};
use delayq::admin::SelectState;
use delayq::{Due, Group, Topic, UnixMillis};
use delayq_service::config::HumanDuration;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::time::Duration;

const MAX_TOPICS: usize = 100;

/// The body.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NewOperation {
    action: String,
    #[serde(deserialize_with = "object")]
    filter: Filter,
    #[serde(default)]
    due: Option<Value>,
    #[serde(default)]
    by: Option<String>,
    #[serde(default)]
    delay: Option<HumanDuration>,
    #[serde(default)]
    pub(super) dry_run: bool,
    #[serde(default)]
    reason: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Filter {
    #[serde(default)]
    topics: Vec<Topic>,
    #[serde(default)]
    group: Option<Group>,
    #[serde(default)]
    state: Option<String>,
    #[serde(default)]
    from: Option<Value>,
    #[serde(default)]
    to: Option<Value>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    #[serde(default)]
    reason: Option<String>,
}

// === impl NewOperation ===

impl NewOperation {
    /// Checks the request.
    pub(super) fn order(self) -> Result<Order, Problem> {
        let reason = match self.reason.as_deref().unwrap_or_default() {
            "" if self.dry_run => String::new(),
            given => reason("reason", given)?,
        };
        let action = self.deed()?;
        let Filter { topics, group, state, from, to, headers, reason: dead_reason } = self.filter;
        if topics.is_empty() && group.is_none() {
            return Err(Problem::invalid("filter", "empty: name topics, a group, or both"));
        }
        if topics.len() > MAX_TOPICS {
            return Err(Problem::invalid("filter.topics", "at most 100 topics are allowed"));
        }
        let state = state_of(action, state.as_deref())?;
        if state == SelectState::Dead && topics.is_empty() {
            return Err(Problem::invalid("filter.topics", "a group lists no dead letters: name topics"));
        }
        if state != SelectState::Dead && dead_reason.is_some() {
            return Err(Problem::invalid("filter.reason", "only dead letters have a reason"));
        }
        let (from, to) = (moment("filter.from", from)?, moment("filter.to", to)?);
        if let (Some(from), Some(to)) = (from, to)
            && from > to
        {
            return Err(Problem::invalid("filter.to", "is before filter.from"));
        }
        Ok(Order {
            action,
            topics,
            group,
            state: state.word().to_owned(),
            from_ms: from.map(UnixMillis::get),
            to_ms: to.map(UnixMillis::get),
            headers,
            dead_reason,
            reason,
            tenant: None,
        })
    }

    fn deed(&self) -> Result<Deed, Problem> {
        let deed = match self.action.as_str() {
            "cancel" => Deed::Cancel,
            "promote" => Deed::Promote,
            "bury" => Deed::Bury,
            "replay" => Deed::Replay(self.delay.map_or(Duration::ZERO, |delay| *delay).as_millis() as u64),
            "reschedule" => return self.new_due(),
            _ => {
                let why = "must be cancel, reschedule, promote, replay or bury";
                return Err(Problem::invalid("action", why));
            }
        };
        for (name, given) in [("due", self.due.is_some()), ("by", self.by.is_some())] {
            if given {
                return Err(Problem::invalid(name, format_args!("not for {}", self.action)));
            }
        }
        match self.delay {
            Some(_) if !matches!(deed, Deed::Replay(_)) => {
                Err(Problem::invalid("delay", format_args!("not for {}", self.action)))
            }
            _ => Ok(deed),
        }
    }

    fn new_due(&self) -> Result<Deed, Problem> {
        match (&self.due, &self.by, self.delay) {
            (Some(due), None, None) => {
                let due =
                    when("due", &text_of(due))?.due(false).map_err(|why| Problem::invalid("due", why))?;
                Ok(match due {
                    Due::At(at) => Deed::Reschedule(at.get()),
                    Due::After(delay) => Deed::RescheduleAfter(delay.as_millis() as u64),
                })
            }
            (None, Some(by), None) => Ok(Deed::Shift(shift("by", by)?.millis())),
            (.., Some(_)) => Err(Problem::invalid("delay", "not for reschedule")),
            _ => Err(Problem::invalid("due", "reschedule needs due or by")),
        }
    }
}

/// Serde would also take an array, the fields in their order.
fn object<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Filter, D::Error> {
    let members = Map::<String, Value>::deserialize(deserializer)?;
    Filter::deserialize(Value::Object(members)).map_err(D::Error::custom)
}

/// The states that an action is for, the default first.
fn state_of(action: Deed, asked: Option<&str>) -> Result<SelectState, Problem> {
    let known: &[SelectState] = match action {
        Deed::Promote => &[SelectState::Delayed],
        Deed::Replay(_) => &[SelectState::Dead],
        _ => &[SelectState::Pending, SelectState::Delayed, SelectState::Ready],
    };
    let Some(asked) = asked else { return Ok(known[0]) };
    known.iter().copied().find(|state| state.word() == asked).ok_or_else(|| {
        let known: Vec<&str> = known.iter().map(|state| state.word()).collect();
        Problem::invalid("filter.state", format_args!("this action is for {}", known.join(", ")))
    })
}

fn moment(pointer: &str, time: Option<Value>) -> Result<Option<UnixMillis>, Problem> {
    let read = |time: Value| {
        delayq_service::when::moment(&text_of(&time)).map_err(|why| Problem::invalid(pointer, why))
    };
    time.map(read).transpose()
}

/// A string, or milliseconds.
fn text_of(time: &Value) -> String {
    time.as_str().map_or_else(|| time.to_string(), str::to_owned)
}
