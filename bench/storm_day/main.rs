//! Turns a day's departures into an event log of boarding notices, on standard output.
//!
//! `storm-day [CSV]`; the default is the snow-storm day of `examples/flights/`. `examples/flights/README.md` lists the
//! times of each notice.

use delayq_bench::event_log::{Cancelled, Event, Moved, Put};
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use serde_json::value::to_raw_value;
use std::collections::HashMap;
use std::error::Error;
use std::io::Write as _;

const STORM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/flights/departures-2013-02-08.csv");
const TOPIC: &str = "boarding";
/// Minutes from boarding to departure.
const BOARDING: i64 = 40;
/// Minutes from the announcement of a delay to the scheduled departure.
const ANNOUNCED: i64 = 60;
/// Latest put of a notice, in minutes before the scheduled departure; the earliest is two hours before that.
const PUT_LATEST: i64 = 180;
const PUT_SPREAD: u64 = 120;
/// Minimum minutes from a put to its cancel, and from the cancel to the notice.
const AFTER_PUT: i64 = 10;
const BEFORE_NOTICE: i64 = 5;

/// The form of the payload.
#[derive(Serialize)]
struct Flight {
    carrier: String,
    number: u32,
    tail: Option<String>,
    origin: String,
    destination: String,
    scheduled: Timestamp,
    /// Minutes; `None` for a flight that never left.
    #[serde(skip)]
    delay: Option<i64>,
    #[serde(skip)]
    id: String,
}

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).unwrap_or_else(|| STORM.to_owned());
    let text = std::fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
    let mut lines = text.lines();
    let columns: Vec<&str> = lines.next().ok_or("the file is empty")?.split(',').collect();
    let mut events = Vec::new();
    for (line, number) in lines.zip(2..) {
        let flight =
            Flight::read(&columns, line).map_err(|error| format!("{path}, line {number}: {error}"))?;
        events.extend(flight.events()?);
    }
    events.sort_by_key(|event| event.at);
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    for event in &events {
        serde_json::to_writer(&mut out, event)?;
        out.write_all(b"\n")?;
    }
    Ok(out.flush()?)
}

// === impl Flight ===

impl Flight {
    fn read(columns: &[&str], line: &str) -> Result<Self, Box<dyn Error>> {
        let row: HashMap<&str, &str> = columns.iter().copied().zip(line.split(',')).collect();
        let cell = |name: &str| row.get(name).copied().ok_or_else(|| format!("no column {name}"));
        let known = |name: &str| cell(name).map(|text| Some(text).filter(|text| *text != "NA"));
        let hour: Timestamp = cell("time_hour")?.parse()?;
        let (carrier, origin) = (cell("carrier")?.to_owned(), cell("origin")?.to_owned());
        let number: u32 = cell("flight")?.parse()?;
        let date = format!("{}-{:0>2}-{:0>2}", cell("year")?, cell("month")?, cell("day")?);
        Ok(Self {
            id: format!("{date}-{carrier}-{number}-{origin}"),
            tail: known("tailnum")?.map(str::to_owned),
            destination: cell("dest")?.to_owned(),
            scheduled: hour + minutes(cell("minute")?.parse()?),
            delay: known("dep_delay")?.map(str::parse).transpose()?,
            carrier,
            number,
            origin,
        })
    }

    fn events(&self) -> Result<Vec<Event>, Box<dyn Error>> {
        let notice = self.scheduled - minutes(BOARDING);
        let put = self.scheduled - minutes(PUT_LATEST) - minutes((self.hash("put") % PUT_SPREAD) as i64);
        let (topic, id, group) = (TOPIC.to_owned(), self.id.clone(), Some(self.carrier.clone()));
        let payload = to_raw_value(self)?;
        let mut events = vec![Event::put(
            put,
            Put { topic: topic.clone(), id: id.clone(), group: group.clone(), due: notice, payload },
        )];
        match self.delay {
            Some(late) if late > 0 => {
                let at = self.scheduled - minutes(ANNOUNCED);
                events.push(Event::reschedule(at, Moved { topic, id, group, due: notice + minutes(late) }));
            }
            Some(_) => {}
            None => {
                let first = put + minutes(AFTER_PUT);
                let last = notice - minutes(BEFORE_NOTICE);
                let span_s = last.duration_since(first).as_secs().unsigned_abs();
                let at = first + SignedDuration::from_secs((self.hash("cancel") % (span_s + 1)) as i64);
                events.push(Event::cancel(at, Cancelled { topic, id, group }));
            }
        }
        Ok(events)
    }

    /// FNV-1a of the spread quantity and the id: equal on every machine and in every version.
    fn hash(&self, what: &str) -> u64 {
        what.bytes().chain(self.id.bytes()).fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        })
    }
}

fn minutes(count: i64) -> SignedDuration {
    SignedDuration::from_mins(count)
}
