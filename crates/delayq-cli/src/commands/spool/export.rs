//! The records of a spool as NDJSON: puts as lines that `delayq put --from` reads, other verbs as separate lines.
//!
//! ```json
//! {"topic":"orders","id":"order-17","due":1800000000000,"payload":"{}", …}
//! {"cancel":{"topic":"orders","id":"order-17","group":"user-5"}}
//! {"reschedule":{"topic":"orders","id":"order-17","to":1800000000000,"expected":1790000000000}}
//! {"reschedule":{"topic":"orders","id":"order-17","by_ms":-60000,"expected":1790000000000}}
//! {"cancel_group":{"group":"user-5"}}
//! {"shift_group":{"group":"user-5","by_ms":-60000,"token":"storm-17"}}
//! ```
//! A delay counts from the time of the write attempt, so the exported `due` or `to` is a time of this host's clock.

use super::record::due_at;
use super::select::{is_of, pages};
use crate::failure::RECORDS_UNREADABLE;
use crate::output::{complain, counted, write};
use clap::{Args, ValueEnum};
use delayq::spool::{AnyRecord, GroupChange, SpoolAction, SpoolRecord};
use delayq::{Reschedule, Topic};
use delayq_service::Fault;
use delayq_service::put_line::line_of_put;
use delayq_spool::SpoolReader;
use serde_json::{Value, json};

const PAGE: usize = 100;

/// Print records as NDJSON
///
/// Puts are lines that `delayq put --from` reads; see docs/cli.md for those of cancels and reschedules. First what waits,
/// then what was rejected, each in the order in which it was spooled. The records stay in the spool.
#[derive(Debug, Args)]
pub(super) struct Export {
    /// Only waiting records, or only rejected ones
    #[arg(long, value_enum)]
    state: Option<RecordState>,
    /// Only records with this verb; may be repeated
    #[arg(long = "verb", value_enum, value_name = "VERB")]
    verbs: Vec<RecordVerb>,
    /// Only this topic; may be repeated
    #[arg(long = "topic", short = 't', value_name = "TOPIC")]
    topics: Vec<Topic>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum RecordState {
    /// Waiting for Redis
    Waiting,
    /// Set aside
    Rejected,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum RecordVerb {
    Put,
    Cancel,
    Reschedule,
    #[value(name = "cancel_group")]
    CancelGroup,
    #[value(name = "shift_group")]
    ShiftGroup,
}

#[derive(Default)]
struct Tally {
    lines: u64,
    unreadable: u64,
    fault: Option<Fault>,
}

// === impl Export ===

impl Export {
    pub(super) fn run(&self, reader: &SpoolReader) -> Result<(), Fault> {
        let mut tally = Tally::default();
        if self.state != Some(RecordState::Rejected) {
            pages(
                |after| reader.waiting(after, PAGE),
                |found| found.seq,
                |found| {
                    self.print(&mut tally, found.seq, &found.record, None);
                },
            )?;
        }
        if self.state != Some(RecordState::Waiting) {
            pages(
                |after| reader.rejected(after, PAGE),
                |found| found.seq,
                |found| {
                    self.print(&mut tally, found.seq, &found.record, Some(&found.reason));
                },
            )?;
        }
        if let Some(fault) = tally.fault {
            return Err(fault);
        }
        complain(&format!("exported {}", counted(tally.lines, "record")));
        match tally.unreadable {
            0 => Ok(()),
            unreadable => Err(Fault::new(
                &RECORDS_UNREADABLE,
                format!("{} cannot be read", counted(unreadable, "record")),
            )),
        }
    }

    fn print(
        &self,
        tally: &mut Tally,
        number: u64,
        record: &Result<AnyRecord, String>,
        reason: Option<&str>,
    ) {
        if tally.fault.is_some() || !is_of(record, &self.topics) {
            return;
        }
        match record {
            Ok(record) if !self.verbs.is_empty() && !self.verbs.contains(&verb(record)) => {}
            Ok(record) => {
                tally.lines += 1;
                tally.fault = write(format!("{}\n", line(record, reason)).as_bytes()).err();
            }
            Err(why) => {
                tally.unreadable += 1;
                complain(&format!("record {number}: {why}"));
            }
        }
    }
}

const fn verb(record: &AnyRecord) -> RecordVerb {
    match record {
        AnyRecord::Message(record) => match record.action {
            SpoolAction::Put(_) => RecordVerb::Put,
            SpoolAction::Cancel => RecordVerb::Cancel,
            SpoolAction::Reschedule(_) => RecordVerb::Reschedule,
        },
        AnyRecord::Group(record) => match record.change {
            GroupChange::Cancel => RecordVerb::CancelGroup,
            GroupChange::Shift { .. } => RecordVerb::ShiftGroup,
        },
    }
}

fn line(record: &AnyRecord, reason: Option<&str>) -> String {
    match record {
        AnyRecord::Message(record) => line_of_message(record, reason),
        AnyRecord::Group(record) => {
            let mut value = json!({ "group": record.group.as_str() });
            if let Some(topic) = &record.topic {
                value["topic"] = topic.as_str().into();
            }
            if let GroupChange::Shift { by, token } = &record.change {
                value["by_ms"] = by.millis().into();
                value["token"] = token.as_str().into();
            }
            json!({ record.verb(): value }).to_string()
        }
    }
}

pub(in crate::commands) fn line_of_message(record: &SpoolRecord, reason: Option<&str>) -> String {
    let SpoolRecord { topic, target, tried_at, action, .. } = record;
    let mut value = json!({ "topic": topic, "id": target.id });
    if let Some(group) = &target.group {
        value["group"] = group.as_str().into();
    }
    match action {
        SpoolAction::Put(message) => return line_of_put(message, due_at(message.due, *tried_at), reason),
        SpoolAction::Cancel => return json!({ "cancel": value }).to_string(),
        SpoolAction::Reschedule(change) => {
            let mut set = |name: &str, number: Value| value[name] = number;
            match *change {
                Reschedule::To(due) => set("to", due_at(due, *tried_at).get().into()),
                Reschedule::ToIfDue(due, expected) => {
                    set("to", due_at(due, *tried_at).get().into());
                    set("expected", expected.get().into());
                }
                Reschedule::By(by, expected) => {
                    set("by_ms", by.millis().into());
                    set("expected", expected.get().into());
                }
            }
        }
    }
    json!({ "reschedule": value }).to_string()
}
