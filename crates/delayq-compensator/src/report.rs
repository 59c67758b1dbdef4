//! The outcomes of a step's records.

use crate::outcome::Outcome;

/// The result of one step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Records that were handed out.
    pub taken: u64,
    /// Records that were sent to Redis.
    pub sent: u64,
    /// Records that were carried out.
    pub done: u64,
    /// Records that can never be carried out.
    pub rejected: u64,
    /// Records that rest.
    pub resting: u64,
    /// The reason of the first resting record that is behind no other.
    pub why: Option<String>,
    /// Why Redis could not be used; `None`: it could.
    pub held: Option<String>,
}

// === impl Report ===

impl Report {
    pub(crate) fn of(settled: &[Outcome]) -> Self {
        let mut report = Self::default();
        for outcome in settled {
            report.sent += u64::from(outcome.is_tried());
            match outcome {
                Outcome::Done => report.done += 1,
                Outcome::Reject(_) => report.rejected += 1,
                Outcome::Rest(_, why) => {
                    report.resting += 1;
                    report.why = report.why.or_else(|| outcome.is_tried().then(|| why.clone()));
                }
                Outcome::Hold(_, why) => drop(report.held.get_or_insert_with(|| why.clone())),
                Outcome::Untried => {}
            }
        }
        report
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.sent += other.sent;
        self.done += other.done;
        self.rejected += other.rejected;
        self.resting += other.resting;
        self.why = self.why.take().or_else(|| other.why.clone());
        self.held = self.held.take().or_else(|| other.held.clone());
    }
}
