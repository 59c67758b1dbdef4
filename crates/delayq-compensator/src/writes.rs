//! Carries out writes in order: writes of one message one after the other, other writes together.

use crate::away::Away;
use crate::groups;
use crate::outcome::{Outcome, of_cancel, of_error, of_put, of_reschedule};
use crate::resting::{Resting, message_of};
use crate::unconfirmed::Unconfirmed;
use delayq::protocol::{Placement, RecordId, Recorded};
use delayq::spool::{GroupRecord, Resubmit, SpoolRecord};
use delayq::{Client, Error, Fate, Producer, ProducerOptions, Target, UnixMillis};
use futures_util::FutureExt as _;
use futures_util::future::join_all;
use std::collections::{BTreeMap, HashMap};

/// A write that was recorded somewhere.
#[derive(Clone, Debug)]
pub(crate) struct Write {
    pub(crate) record: SpoolRecord,
    /// The id by which a repeat is recognised; `None`: the source has no unique ids.
    pub(crate) id: Option<RecordId>,
    /// Time of the first try after the recording, if that may have been applied.
    pub(crate) tried: Option<UnixMillis>,
    /// No try may have been applied, as far as is known.
    pub(crate) is_first: bool,
}

/// Carries out writes in a deployment.
#[derive(Debug)]
pub(crate) struct Carrier {
    producer: Producer,
    away: Away,
    unconfirmed: Unconfirmed,
}

// === impl Write ===

impl Write {
    pub(crate) fn new(record: SpoolRecord, id: Option<RecordId>, tried: Option<UnixMillis>) -> Self {
        let is_first = tried.is_none() && record.fate == Fate::NotApplied;
        Self { record, id, tried, is_first }
    }

    /// The answer for Redis to forget once the source has noted the outcome.
    pub(crate) fn carried(&self) -> Option<(Target, RecordId)> {
        Some((self.record.target.clone(), self.id?))
    }

    /// True if the write is sent even though a confirmation is unlikely: the write is no repeat that may be applied twice.
    fn goes_unconfirmed(&self) -> bool {
        self.is_first || self.record.verb() == "cancel"
    }
}

// === impl Carrier ===

impl Carrier {
    /// Creates a carrier without a spool: writes that cannot be carried out stay in the source.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub(crate) fn new(client: Client) -> Self {
        let producer = Producer::start(client, ProducerOptions::default());
        Self { producer, away: Away::default(), unconfirmed: Unconfirmed::default() }
    }

    /// Carries out a batch, as far as Redis can be used: writes of a message in order. One answer for each write.
    pub(crate) async fn carry_out(&mut self, resting: &mut Resting, batch: &[&Write]) -> Vec<Outcome> {
        let mut settled = vec![Outcome::Untried; batch.len()];
        let topics = batch.iter().map(|write| Some(&write.record.topic));
        self.unconfirmed.ask_again(&self.producer, topics).await;
        let mut last = Vec::new();
        for run in runs(batch) {
            let mut tried = Vec::with_capacity(run.len());
            for at in run {
                let record = &batch[at].record;
                if resting.holds(record) {
                    continue;
                }
                let places = || self.places(record);
                let why = self.away.why(places).or_else(|| {
                    let why = self.unconfirmed.why(Some(&record.topic), places)?;
                    if batch[at].goes_unconfirmed() {
                        last.push(at);
                    }
                    Some(why)
                });
                match why {
                    None => tried.push(at),
                    Some(why) => {
                        resting.add(record);
                        settled[at] = Outcome::Rest(Fate::NotApplied, why);
                    }
                }
            }
            let writes: Vec<&Write> = tried.iter().map(|&at| batch[at]).collect();
            let answers = call(&self.producer, &writes).await;
            for (write, answer) in writes.iter().zip(&answers) {
                if let Err(error) = answer {
                    self.unconfirmed.learn(&self.producer, Some(&write.record.topic), error);
                }
            }
            let outcome = |answer: Result<Outcome, Error>| answer.unwrap_or_else(|error| of_error(&error));
            let outcomes: Vec<Outcome> = answers.into_iter().map(outcome).collect();
            self.away.learn(&self.producer, &outcomes).await;
            let mut has_ended = false;
            for (at, outcome) in tried.into_iter().zip(outcomes) {
                let record = &batch[at].record;
                let outcome = self.away.judge(outcome, || self.places(record));
                if let Outcome::Rest(..) = outcome {
                    resting.add(record);
                }
                has_ended |= matches!(outcome, Outcome::Hold(..));
                settled[at] = outcome;
            }
            if has_ended {
                return settled;
            }
        }
        self.send_unconfirmed(batch, &last, &mut settled).await;
        settled
    }

    /// Sends writes that rest for want of a confirmation, each of another message, all at once: only these writes wait
    /// together.
    async fn send_unconfirmed(&self, batch: &[&Write], which: &[usize], settled: &mut [Outcome]) {
        let mut runs = BTreeMap::<_, Vec<usize>>::new();
        for &at in which {
            let record = &batch[at].record;
            let topic = (record.verb() != "put").then_some(&record.topic);
            runs.entry((record.verb(), topic)).or_default().push(at);
        }
        // In boxes: the calls to Redis nest too deep for the compiler to prove `Send`.
        let sent = join_all(runs.into_values().map(async |run| {
            let writes: Vec<&Write> = run.iter().map(|&at| batch[at]).collect();
            let answers = call(&self.producer, &writes).boxed().await;
            (run, answers)
        }));
        for (run, answers) in sent.await {
            for (at, answer) in run.into_iter().zip(answers) {
                settled[at] = match answer.unwrap_or_else(|error| of_error(&error)) {
                    // All writes that need no confirmation have been carried out.
                    Outcome::Hold(fate, why) => Outcome::Rest(fate, why),
                    outcome => outcome,
                };
            }
        }
    }

    /// Carries out a change of a group.
    pub(crate) async fn change(&mut self, resting: &mut Resting, record: &GroupRecord) -> Outcome {
        self.unconfirmed.ask_again(&self.producer, std::iter::once(None)).await;
        let places = || self.producer.client().layout().placement(record.group.as_str());
        let outcome = match self.away.why(places).or_else(|| self.unconfirmed.why(None, places)) {
            Some(why) => Outcome::Rest(Fate::NotApplied, why),
            None => {
                let answer = groups::change(&self.producer, record).await;
                if let Err(error) = &answer {
                    self.unconfirmed.learn(&self.producer, None, error);
                }
                let outcome = answer.unwrap_or_else(|error| of_error(&error));
                self.away.learn(&self.producer, std::slice::from_ref(&outcome)).await;
                self.away.judge(outcome, places)
            }
        };
        if let Outcome::Rest(..) = outcome {
            resting.add_group(&record.group);
        }
        outcome
    }

    /// Lets Redis forget the answers to writes that the source has noted. After a failure, the answers expire within a
    /// month.
    pub(crate) async fn settled(&self, carried: &[(Target, RecordId)]) {
        if carried.is_empty() {
            return;
        }
        if let Err(error) = Recorded::by(&self.producer).settled(carried).boxed().await {
            tracing::debug!(%error, records = carried.len(), "the outcomes of settled records stay in Redis \
                                                              for now");
        }
    }

    /// Probes the shards: if nothing at all is carried out, the whole Redis may be unusable.
    pub(crate) async fn probe(&mut self) -> Result<(), Error> {
        self.away.probe(&self.producer).await
    }

    fn places(&self, record: &SpoolRecord) -> Placement {
        self.producer.client().layout().placement_of(&record.target.id, record.target.group.as_ref())
    }
}

/// Cuts a batch into runs that may go to Redis together: the first writes of all messages, then the second ones, and so on,
/// each by verb and, but for puts, by topic.
fn runs(batch: &[&Write]) -> Vec<Vec<usize>> {
    let (mut runs, mut seen) = (BTreeMap::<_, Vec<usize>>::new(), HashMap::<_, u32>::new());
    for (at, Write { record, .. }) in batch.iter().enumerate() {
        let before = seen.entry(message_of(record)).or_default();
        let topic = (record.verb() != "put").then_some(&record.topic);
        runs.entry((*before, record.verb(), topic)).or_default().push(at);
        *before += 1;
    }
    runs.into_values().collect()
}

/// Calls Redis for a run: the outcome of each write, or the error.
async fn call(producer: &Producer, run: &[&Write]) -> Vec<Result<Outcome, Error>> {
    let now = delayq_service::host_now();
    let (mut puts, mut cancels, mut moves, mut topic) = (Vec::new(), Vec::new(), Vec::new(), None);
    let records: Vec<Option<RecordId>> = run.iter().map(|write| write.id).collect();
    for write in run {
        match write.record.resubmit(now, write.tried.filter(|_| write.id.is_none())) {
            Resubmit::Put(mut message) => {
                message.record = write.id;
                puts.push(message);
            }
            Resubmit::Cancel(of, target) => {
                topic = Some(of);
                cancels.push(target);
            }
            Resubmit::Reschedule(of, target, change) => {
                topic = Some(of);
                moves.push((target, change));
            }
        }
    }
    let recorded = Recorded::by(producer);
    match topic {
        None => {
            let answers = producer.put_many(puts).await.into_iter();
            answers
                .map(|answer| answer.map(|put| of_put(&put.outcome)).map_err(|error| error.error))
                .collect()
        }
        Some(topic) if moves.is_empty() => {
            let answers = recorded.cancel_many(&topic, &cancels, &records).await.into_iter();
            answers.map(|answer| answer.map(|outcome| of_cancel(&outcome))).collect()
        }
        Some(topic) => {
            let answers = recorded.reschedule_many(&topic, &moves, &records).await.into_iter();
            answers.map(|answer| answer.map(|outcome| of_reschedule(&outcome))).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use delayq::{Message, MessageId, Target, Topic};

    fn write(word: &str) -> Write {
        let (verb, id) = word.split_at(1);
        let (topic, at) = (Topic::new("t").unwrap(), UnixMillis::new(1));
        let target = Target::from(MessageId::own(id).unwrap());
        let record = match verb {
            "c" => SpoolRecord::cancel(&topic, &target, at),
            _ => SpoolRecord::put(&Message::new(topic, "x").with_id(target.id), Fate::NotApplied, at),
        };
        Write::new(record, None, None)
    }

    #[test]
    fn a_run_has_one_verb_and_the_writes_of_a_message_keep_their_order() {
        for (batch, expected) in [
            ("", vec![]),
            ("p1 p2 p3", vec![vec![0, 1, 2]]),
            ("p1 c2 p3 c4", vec![vec![1, 3], vec![0, 2]]),
            ("p1 p2 c1 c2 p1", vec![vec![0, 1], vec![2, 3], vec![4]]),
            ("p1 p1 p2", vec![vec![0, 2], vec![1]]),
            ("c1 c1", vec![vec![0], vec![1]]),
        ] {
            let batch: Vec<Write> = batch.split_whitespace().map(write).collect();
            assert_eq!(runs(&batch.iter().collect::<Vec<_>>()), expected);
        }
    }
}
