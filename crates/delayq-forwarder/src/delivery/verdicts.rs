//! From outcomes to verdicts, destination by destination.

use super::LaneBatch;
use super::load::{Item, Load};
use crate::lane::Conclusion;
use crate::settle::Verdict;
use crate::{About, Parcel};
use delayq::protocol::Receipt;
use delayq_service::brokers::{Blame, Outcome};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Minimum delay before a message returns when its destination does not rest.
const MIN_REST: Duration = Duration::from_millis(100);

struct ParcelOutcome<'a> {
    parcel: &'a Parcel,
    item: &'a Item,
    outcome: &'a Outcome,
}

struct Verdicts<'a> {
    each: Vec<(Receipt, Verdict)>,
    buried: Vec<Buried<'a>>,
}

struct Buried<'a> {
    about: &'a About,
    /// `None`: the route could not encode the message.
    destination: Option<&'a str>,
    reason: String,
}

// === impl LaneBatch ===

impl LaneBatch {
    /// Leaves settled messages out.
    pub(super) fn verdicts(&self, load: Load, items: &[Item]) -> Vec<(Receipt, Verdict)> {
        let Load { parcels, unencoded, undelivered, probed } = load;
        let mut verdicts = Verdicts { each: undelivered, buried: Vec::new() };
        let mut destinations: BTreeMap<&str, Vec<ParcelOutcome<'_>>> = BTreeMap::new();
        for (parcel, item) in parcels.iter().zip(items) {
            match &item.outcome {
                Some(outcome) => {
                    let answered = ParcelOutcome { parcel, item, outcome };
                    destinations.entry(&parcel.destination).or_default().push(answered);
                }
                None => {
                    let rest = Verdict::rest(Duration::ZERO, "returned while draining");
                    verdicts.each.push((item.receipt.clone(), rest));
                }
            }
        }
        let batch: Vec<(&str, Vec<&Outcome>)> = destinations
            .iter()
            .map(|(destination, answered)| (*destination, answered.iter().map(|of| of.outcome).collect()))
            .collect();
        let rejected: Vec<&Outcome> = unencoded.iter().map(|message| &message.outcome).collect();
        let (judgements, mut of_unencoded) = self.lane.judge(&batch, &rejected, self.probe, Instant::now());
        for ((destination, answered), mut judgement) in destinations.into_iter().zip(judgements) {
            let probe = self.probe || probed.contains(destination);
            for ParcelOutcome { parcel, item, outcome } in answered.into_iter().filter(|of| !of.item.settled)
            {
                let again = parcel.about.delivery > u32::from(parcel.about.attempt);
                let verdict = verdict(outcome, &mut judgement, probe, again);
                verdicts.add(&item.receipt, verdict, &parcel.about, Some(destination));
            }
        }
        for message in &unencoded {
            let verdict = verdict(&message.outcome, &mut of_unencoded, self.probe, false);
            verdicts.add(&message.receipt, verdict, &message.about, None);
        }
        verdicts.log_buried(&self.lane.to.name);
        verdicts.each
    }
}

// === impl Verdicts ===

impl<'a> Verdicts<'a> {
    fn add(&mut self, receipt: &Receipt, verdict: Verdict, about: &'a About, destination: Option<&'a str>) {
        if let Verdict::Bury(reason) = &verdict {
            self.buried.push(Buried { about, destination, reason: reason.clone() });
        }
        self.each.push((receipt.clone(), verdict));
    }

    /// Logs the first burial of a batch and the number of others, so that a bad destination does not flood the log.
    fn log_buried(&self, sink: &str) {
        if let [Buried { about: About { topic, id, .. }, destination, reason }, others @ ..] =
            &self.buried[..]
        {
            let more = others.len();
            tracing::error!(
                sink,
                destination,
                topic,
                id,
                more,
                reason,
                "buried: the message can never be \
                 delivered"
            );
        }
    }
}

/// `again`: an earlier failure was free.
fn verdict(outcome: &Outcome, judgement: &mut Conclusion, probe: bool, again: bool) -> Verdict {
    let rest = judgement.rest;
    match outcome {
        Outcome::Delivered => Verdict::Ack,
        Outcome::Rejected { reason } if judgement.burials > 0 => {
            judgement.burials -= 1;
            Verdict::Bury(reason.clone())
        }
        Outcome::Rejected { reason } => Verdict::Release {
            delay: (!probe).then(|| rest.unwrap_or_default().max(MIN_REST)),
            keep_attempt: !probe,
            reason: reason.clone(),
        },
        Outcome::Unavailable { reason, retry_after, blame } => {
            let burns = judgement.evidence.burns(*blame, probe, rest.is_some(), again);
            let rest = match blame {
                Blame::Nobody => Duration::ZERO,
                _ => rest.unwrap_or_default().max(MIN_REST),
            };
            let delay = if burns { *retry_after } else { Some(rest) };
            Verdict::Release { delay, keep_attempt: !burns, reason: reason.clone() }
        }
    }
}
