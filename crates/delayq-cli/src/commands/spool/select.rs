//! Selects records of a spool: by number, or all that match.

use super::fault::unusable;
use clap::Args;
use delayq::Topic;
use delayq::spool::AnyRecord;
use delayq_service::Fault;
use delayq_spool::{SpoolError, SpoolReader};

const PAGE: usize = 500;

/// Which records.
#[derive(Debug, Args)]
pub(super) struct Select {
    /// Their numbers
    #[arg(required_unless_present = "all")]
    numbers: Vec<u64>,
    /// All rejected ones, or those that --topic and --reason select
    #[arg(long, conflicts_with = "numbers")]
    all: bool,
    /// With --all: only those of this topic; may be repeated
    #[arg(long = "topic", short = 't', value_name = "TOPIC", requires = "all", conflicts_with = "numbers")]
    topics: Vec<Topic>,
    /// With --all: only those whose reason contains this text
    #[arg(long, value_name = "TEXT", requires = "all", conflicts_with = "numbers")]
    reason: Option<String>,
}

// === impl Select ===

impl Select {
    pub(super) fn numbers(&self, reader: &SpoolReader, waiting: bool) -> Result<Vec<u64>, Fault> {
        if !self.all {
            return Ok(self.numbers.clone());
        }
        let mut numbers = Vec::new();
        let of_topic = |record: &Result<AnyRecord, String>| is_of(record, &self.topics);
        if waiting {
            pages(
                |after| reader.waiting(after, PAGE),
                |found| found.seq,
                |found| {
                    numbers.extend(of_topic(&found.record).then_some(found.seq));
                },
            )?;
        } else {
            pages(
                |after| reader.rejected(after, PAGE),
                |found| found.seq,
                |found| {
                    let fits = self.reason.as_ref().is_none_or(|text| found.reason.contains(text));
                    numbers.extend((fits && of_topic(&found.record)).then_some(found.seq));
                },
            )?;
        }
        Ok(numbers)
    }
}

/// Without topics every record matches, even an unreadable record. A change of a group is of no topic.
pub(super) fn is_of(record: &Result<AnyRecord, String>, topics: &[Topic]) -> bool {
    topics.is_empty()
        || record
            .as_ref()
            .ok()
            .and_then(AnyRecord::message)
            .is_some_and(|record| topics.contains(&record.topic))
}

pub(super) fn pages<T>(
    page: impl Fn(u64) -> Result<Vec<T>, SpoolError>,
    number: impl Fn(&T) -> u64,
    mut each: impl FnMut(T),
) -> Result<(), Fault> {
    let mut after = 0;
    loop {
        let found = page(after).map_err(unusable)?;
        let Some(last) = found.last() else { return Ok(()) };
        after = number(last);
        found.into_iter().for_each(&mut each);
    }
}
