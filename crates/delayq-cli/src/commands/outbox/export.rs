//! Exports the rows that are kept aside as NDJSON, in the format of `delayq spool export`.

use crate::commands::spool::export::line_of_message;
use crate::failure::RECORDS_UNREADABLE;
use crate::output::{complain, counted, write};
use clap::{Args, ValueEnum};
use delayq_compensator::{AsideRow, OutboxKeeper};
use delayq_service::Fault;

const PAGE: usize = 100;

/// Print rows that are set aside as NDJSON
///
/// Puts are lines that `delayq put --from` reads; see docs/cli.md for those of cancels and reschedules. First rejected rows, then
/// those that rest, each in their order. The rows stay where they are.
#[derive(Debug, Args)]
pub(super) struct Export {
    /// Only rejected rows, or only resting ones
    #[arg(long, value_enum)]
    state: Option<RowState>,
    /// Only this topic; may be repeated
    #[arg(long = "topic", short = 't', value_name = "TOPIC")]
    topics: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum RowState {
    /// Set aside for good
    Rejected,
    /// Tried again by themselves
    Resting,
}

// === impl Export ===

impl Export {
    pub(super) async fn run(&self, keeper: &mut OutboxKeeper) -> Result<(), Fault> {
        let (mut lines, mut unreadable) = (0, 0);
        for which in [RowState::Rejected, RowState::Resting] {
            if self.state.is_some_and(|state| state != which) {
                continue;
            }
            let mut after = 0;
            loop {
                let found = keeper.aside(which == RowState::Resting, after, PAGE).await?;
                let Some(last) = found.last() else { break };
                after = last.number;
                for AsideRow { number, reason, row, .. } in found.iter().filter(|found| self.is_of(found)) {
                    match row.record() {
                        Ok(record) => {
                            write(format!("{}\n", line_of_message(&record, Some(reason))).as_bytes())?;
                            lines += 1;
                        }
                        Err(why) => {
                            complain(&format!("row {number}: {why}"));
                            unreadable += 1;
                        }
                    }
                }
            }
        }
        complain(&format!("exported {}", counted(lines, "row")));
        match unreadable {
            0 => Ok(()),
            _ => {
                Err(Fault::new(&RECORDS_UNREADABLE, format!("{} cannot be read", counted(unreadable, "row"))))
            }
        }
    }

    fn is_of(&self, found: &AsideRow) -> bool {
        self.topics.is_empty() || self.topics.iter().any(|topic| topic == found.row.topic())
    }
}
