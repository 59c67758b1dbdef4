//! The event log as steps with times and expected results. Pure.

use delayq::{Group, Message, MessageId, Target, Topic};
use delayq_bench::event_log::Event;
use delayq_service::put_line::payload_bytes;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Minimum real time between a change and the due time that it changes.
pub(crate) const LEAD: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub(crate) struct Script {
    pub(crate) steps: Vec<Step>,
    pub(crate) expected: BTreeMap<(String, String), Expected>,
    pub(crate) first_ms: i64,
    /// Last time of the log, due times included.
    pub(crate) last_ms: i64,
    pub(crate) fingerprint: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct Step {
    /// From 1.
    pub(crate) line: usize,
    pub(crate) at_ms: i64,
    /// Replay time, in log time: `at_ms` or earlier (see [`Script::pace`]).
    pub(crate) play_ms: i64,
    /// Previous due time of the changed message, in log time; `None` for a put.
    pub(crate) until_ms: Option<i64>,
    pub(crate) topic: Topic,
    pub(crate) target: Target,
    pub(crate) act: Act,
}

#[derive(Clone, Debug)]
pub(crate) enum Act {
    Put {
        /// In log time.
        due_ms: i64,
        payload: Vec<u8>,
    },
    Reschedule {
        due_ms: i64,
    },
    Cancel,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expected {
    /// Due at this log time.
    Delivered {
        due_ms: i64,
    },
    Cancelled,
}

// === impl Script ===

impl Script {
    /// Reads a log. Fails with every faulty line, as `line N: what`.
    pub(crate) fn parse(text: &str) -> Result<Self, Vec<String>> {
        let (mut steps, mut faults) = (Vec::new(), Vec::new());
        for (line, number) in text.lines().zip(1..) {
            if line.trim().is_empty() {
                continue;
            }
            match Step::parse(line, number) {
                Ok(step) => steps.push(step),
                Err(fault) => faults.push(format!("line {number}: {fault}")),
            }
        }
        steps.sort_by_key(|step| step.at_ms);
        let mut expected = BTreeMap::new();
        for step in &steps {
            if let Err(fault) = step.expect(&mut expected) {
                faults.push(format!("line {}: {fault}", step.line));
            }
        }
        let Some(first) = steps.first() else {
            faults.push("the log has no events".to_owned());
            return Err(faults);
        };
        if !faults.is_empty() {
            return Err(faults);
        }
        let due = |expected: &Expected| match expected {
            Expected::Delivered { due_ms } => Some(*due_ms),
            Expected::Cancelled => None,
        };
        let last = expected.values().filter_map(due).chain(steps.iter().map(|step| step.at_ms)).max();
        let (first_ms, last_ms) = (first.at_ms, last.unwrap_or(first.at_ms));
        Ok(Self { steps, expected, first_ms, last_ms, fingerprint: fingerprint(text) })
    }

    /// Sets each step's replay time at this speed, and sorts by it. A change within [`LEAD`] of its message's due time
    /// is played earlier: a log minute may last a few milliseconds, and the rehearsal tests deliveries, not this
    /// machine's scheduling.
    pub(crate) fn pace(&mut self, speed: f64) {
        let lead_ms = (LEAD.as_millis() as f64 * speed) as i64;
        let mut played: BTreeMap<(Topic, MessageId), (i64, i64)> = BTreeMap::new();
        for step in &mut self.steps {
            let key = (step.topic.clone(), step.target.id.clone());
            let before = played.get(&key).copied();
            step.play_ms =
                before.map_or(step.at_ms, |(last_ms, due_ms)| step.at_ms.min(due_ms - lead_ms).max(last_ms));
            step.until_ms = before.map(|(_, due_ms)| due_ms);
            let due_ms = match step.act {
                Act::Put { due_ms, .. } | Act::Reschedule { due_ms } => due_ms,
                Act::Cancel => step.at_ms,
            };
            played.insert(key, (step.play_ms, due_ms));
        }
        self.steps.sort_by_key(|step| step.play_ms);
    }

    pub(crate) fn topics(&self) -> BTreeSet<Topic> {
        self.steps.iter().map(|step| step.topic.clone()).collect()
    }

    pub(crate) fn deliveries(&self) -> usize {
        self.expected.values().filter(|expected| matches!(expected, Expected::Delivered { .. })).count()
    }
}

// === impl Act ===

impl Act {
    /// Order within the life of a message: a put first, a cancel last.
    pub(crate) const fn order(&self) -> u8 {
        match self {
            Self::Put { .. } => 0,
            Self::Reschedule { .. } => 1,
            Self::Cancel => 2,
        }
    }
}

// === impl Step ===

impl Step {
    fn parse(line: &str, number: usize) -> Result<Self, String> {
        let event: Event = serde_json::from_str(line).map_err(|error| {
            let text = error.to_string();
            text.split(" at line ").next().unwrap_or_default().to_owned()
        })?;
        let at_ms = event.at.as_millisecond();
        let (topic, id, group, act) = match (event.put, event.reschedule, event.cancel) {
            (Some(put), None, None) => {
                let payload = payload_bytes(&put.payload)?;
                let act = Act::Put { due_ms: put.due.as_millisecond(), payload };
                (put.topic, put.id, put.group, act)
            }
            (None, Some(moved), None) => {
                let act = Act::Reschedule { due_ms: moved.due.as_millisecond() };
                (moved.topic, moved.id, moved.group, act)
            }
            (None, None, Some(cancelled)) => (cancelled.topic, cancelled.id, cancelled.group, Act::Cancel),
            _ => return Err("an event is put, reschedule or cancel".to_owned()),
        };
        let text = |error: delayq::protocol::NameError| error.to_string();
        let group = group.map(Group::new).transpose().map_err(text)?;
        let target = Target { id: MessageId::own(id).map_err(text)?, group };
        let topic = Topic::new(topic).map_err(text)?;
        Ok(Self { line: number, at_ms, play_ms: at_ms, until_ms: None, topic, target, act })
    }

    fn expect(&self, expected: &mut BTreeMap<(String, String), Expected>) -> Result<(), String> {
        let key = (self.topic.to_string(), self.target.id.to_string());
        let id = &key.1;
        let before = expected.get(&key).copied();
        let next = match (&self.act, before) {
            (Act::Put { due_ms, .. }, None) => Expected::Delivered { due_ms: *due_ms },
            (Act::Put { .. }, Some(_)) => return Err(format!("{id} is put a second time")),
            (_, None) => return Err(format!("{id} was not put before")),
            (_, Some(Expected::Cancelled)) => return Err(format!("{id} was cancelled before")),
            (_, Some(Expected::Delivered { due_ms })) if due_ms <= self.at_ms => {
                return Err(format!("{id} was due before, so the change is too late"));
            }
            (Act::Reschedule { due_ms }, Some(_)) => Expected::Delivered { due_ms: *due_ms },
            (Act::Cancel, Some(_)) => Expected::Cancelled,
        };
        expected.insert(key, next);
        Ok(())
    }

    /// Due at the real time `due`.
    pub(crate) fn message(&self, due: delayq::UnixMillis, payload: &[u8]) -> Message {
        let message =
            Message::new(self.topic.clone(), payload).at(due).with_id(self.target.id.clone()).replace();
        match &self.target.group {
            Some(group) => message.with_group(group.clone()),
            None => message,
        }
    }
}

/// FNV-1a: only distinguishes logs.
fn fingerprint(text: &str) -> u64 {
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PUT: &str = r#"{"at":"2013-02-08T07:00:00Z","put":{"topic":"t","id":"a","group":"g","due":"2013-02-08T09:00:00Z","payload":{}}}"#;
    const MOVED: &str = r#"{"at":"2013-02-08T08:00:00Z","reschedule":{"topic":"t","id":"a","group":"g","due":"2013-02-08T10:00:00Z"}}"#;
    const CANCELLED: &str = r#"{"at":"2013-02-08T09:30:00Z","cancel":{"topic":"t","id":"a","group":"g"}}"#;

    #[test]
    fn the_last_word_on_a_message_is_what_is_expected() {
        let key = ("t".to_owned(), "a".to_owned());
        let script = Script::parse(&[PUT, MOVED].join("\n")).unwrap();
        let due: jiff::Timestamp = "2013-02-08T10:00:00Z".parse().unwrap();
        assert_eq!(script.expected[&key], Expected::Delivered { due_ms: due.as_millisecond() });
        assert_eq!(script.last_ms, due.as_millisecond());
        let script = Script::parse(&[CANCELLED, PUT, MOVED].join("\n")).unwrap();
        assert_eq!(script.expected[&key], Expected::Cancelled);
        assert_eq!(script.deliveries(), 0);
    }

    #[test]
    fn a_change_that_would_come_too_close_to_the_due_time_is_played_earlier() {
        let cancelled = CANCELLED.replace("09:30", "08:59");
        let played = |speed: f64| {
            let mut script = Script::parse(&format!("{PUT}\n{cancelled}")).unwrap();
            script.pace(speed);
            let first_ms = script.first_ms;
            script.steps.iter().map(|step| (step.play_ms - first_ms) / 60_000).collect::<Vec<_>>()
        };
        // A minute before the due time, or two real seconds (here forty minutes), but never before the put.
        assert_eq!(played(1.0), [0, 119]);
        assert_eq!(played(1200.0), [0, 80]);
        assert_eq!(played(1_000_000.0), [0, 0]);
    }

    #[test]
    fn each_fault_of_a_log_is_named_by_its_line() {
        for (text, expected) in [
            (String::new(), "the log has no events"),
            ("{".to_owned(), "line 1: EOF"),
            (format!("{PUT}\n{PUT}"), "line 2: a is put a second time"),
            (MOVED.to_owned(), "line 1: a was not put before"),
            (format!("{PUT}\n{CANCELLED}"), "line 2: a was due before"),
            (r#"{"at":"2013-02-08T07:00:00Z"}"#.to_owned(), "line 1: an event is put"),
            (PUT.replace("\"t\"", "\"a b\""), "line 1: topic \"a b\""),
        ] {
            let faults = Script::parse(&text).unwrap_err();
            assert!(faults[0].contains(expected), "{faults:?}");
        }
    }
}
