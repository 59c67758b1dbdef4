//! Carrying out writes in their order: those of one message one after the other, others together.

use crate::away::Away;
use crate::groups;
use crate::outcome::{Settle, of_cancel, of_error, of_put, of_reschedule};
use crate::resting::{Resting, message_of};
use crate::unconfirmed::Unconfirmed;
use delayq::protocol::Placement;
use delayq::spool::{GroupRecord, Resubmit, SpoolRecord};
use delayq::{Client, Error, Fate, Producer, ProducerOptions, UnixMillis};
use std::collections::HashSet;
use std::ops::Range;

/// A write that was recorded somewhere.
#[derive(Clone, Debug)]
pub(crate) struct Write {
    pub(crate) record: SpoolRecord,
    /// When it was first tried since it was recorded, if that try may have been applied.
    pub(crate) tried: Option<UnixMillis>,
}

/// Carries out writes in a deployment.
#[derive(Debug)]
pub(crate) struct Carrier {
    producer: Producer,
    away: Away,
    unconfirmed: Unconfirmed,
}

// === impl Carrier ===

impl Carrier {
    /// Without a spool of its own: what cannot be carried out stays where it was recorded.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub(crate) fn new(client: Client) -> Self {
        let producer = Producer::start(client, ProducerOptions::default());
        Self { producer, away: Away::default(), unconfirmed: Unconfirmed::default() }
    }

    /// Carries out a batch, as far as Redis can be used. One answer for each write, in their order.
    pub(crate) async fn carry_out(&mut self, resting: &mut Resting, batch: &[Write]) -> Vec<Settle> {
        let mut settled = vec![Settle::Untried; batch.len()];
        let topics = batch.iter().map(|write| &write.record.topic);
        self.unconfirmed.ask_again(&self.producer, topics).await;
        for run in runs(batch) {
            let mut tried = Vec::with_capacity(run.len());
            for at in run {
                let record = &batch[at].record;
                if resting.holds(record) {
                    continue;
                }
                match self.why(record) {
                    None => tried.push(at),
                    Some(why) => {
                        resting.add(record, why.clone());
                        settled[at] = Settle::Rest(Fate::NotApplied, why);
                    }
                }
            }
            let writes: Vec<&Write> = tried.iter().map(|&at| &batch[at]).collect();
            let answers = call(&self.producer, &writes).await;
            for (write, answer) in writes.iter().zip(&answers) {
                if let Err(error) = answer {
                    self.unconfirmed.learn(&self.producer, &write.record.topic, error);
                }
            }
            let settle = |answer: Result<Settle, Error>| answer.unwrap_or_else(|error| of_error(&error));
            let settles: Vec<Settle> = answers.into_iter().map(settle).collect();
            self.away.learn(self.producer.client(), &settles).await;
            let mut has_ended = false;
            for (at, settle) in tried.into_iter().zip(settles) {
                let record = &batch[at].record;
                let settle = self.away.judge(settle, || self.places(record));
                if let Settle::Rest(_, why) = &settle {
                    resting.add(record, why.clone());
                }
                has_ended |= matches!(settle, Settle::Hold(..));
                settled[at] = settle;
            }
            if has_ended {
                break;
            }
        }
        settled
    }

    /// Carries out a change of a group; `tried` is when it was first tried since it was recorded.
    pub(crate) async fn change(
        &mut self,
        resting: &mut Resting,
        record: &GroupRecord,
        tried: Option<UnixMillis>,
    ) -> Settle {
        let places = || self.producer.client().layout().placement(record.group.as_str());
        let settle = match self.away.why(places) {
            Some(why) => Settle::Rest(Fate::NotApplied, why),
            None => {
                let settle = groups::change(&self.producer, record, tried).await;
                self.away.learn(self.producer.client(), std::slice::from_ref(&settle)).await;
                self.away.judge(settle, places)
            }
        };
        if let Settle::Rest(_, why) = &settle {
            resting.add_group(&record.group, why.clone());
        }
        settle
    }

    /// Whether any shard can be used: where nothing at all is carried out, it may be the whole Redis.
    pub(crate) async fn probe(&mut self) -> Result<(), Error> {
        self.away.probe(self.producer.client()).await
    }

    /// Why a write rests without a call.
    fn why(&self, record: &SpoolRecord) -> Option<String> {
        let places = || self.places(record);
        self.away.why(places).or_else(|| self.unconfirmed.why(&record.topic, places))
    }

    fn places(&self, record: &SpoolRecord) -> Placement {
        self.producer.client().layout().placement_of(&record.target.id, record.target.group.as_ref())
    }
}

/// Cuts a batch into runs that may go to Redis together, because no write of one waits for another: where the verb
/// changes, where a message comes a second time, and, but for puts, where the topic changes.
fn runs(batch: &[Write]) -> Vec<Range<usize>> {
    let mut runs: Vec<Range<usize>> = Vec::new();
    let mut messages = HashSet::new();
    for (at, Write { record, .. }) in batch.iter().enumerate() {
        let message = message_of(record);
        let last = at.checked_sub(1).map(|before| &batch[before].record);
        let fits = last.is_some_and(|last| {
            let one_topic = record.verb() == "put" || last.topic == record.topic;
            last.verb() == record.verb() && one_topic && !messages.contains(&message)
        });
        match runs.last_mut() {
            Some(run) if fits => run.end = at + 1,
            _ => {
                messages.clear();
                runs.push(at..at + 1);
            }
        }
        messages.insert(message);
    }
    runs
}

/// Calls Redis for a run: what becomes of each write, or the error.
async fn call(producer: &Producer, run: &[&Write]) -> Vec<Result<Settle, Error>> {
    let now = delayq_service::host_now();
    let (mut puts, mut cancels, mut moves, mut topic) = (Vec::new(), Vec::new(), Vec::new(), None);
    for write in run {
        match write.record.resubmit(now, write.tried) {
            Resubmit::Put(message) => puts.push(message),
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
    match topic {
        None => {
            let answers = producer.put_many(puts).await.into_iter();
            answers
                .map(|answer| answer.map(|put| of_put(&put.outcome)).map_err(|error| error.error))
                .collect()
        }
        Some(topic) if moves.is_empty() => {
            let answers = producer.cancel_many(&topic, &cancels).await.into_iter();
            answers.map(|answer| answer.map(|outcome| of_cancel(&outcome))).collect()
        }
        Some(topic) => {
            let answers = producer.reschedule_many(&topic, &moves).await.into_iter();
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
        Write { record, tried: None }
    }

    #[test]
    fn a_run_has_one_verb_and_each_id_once() {
        for (batch, expected) in [
            ("", vec![]),
            ("p1 p2 p3", std::iter::once(0..3).collect()),
            ("p1 p2 c1 c2 p1", vec![0..2, 2..4, 4..5]),
            ("p1 p1 p2", vec![0..1, 1..3]),
            ("c1 c1", vec![0..1, 1..2]),
        ] {
            let batch: Vec<Write> = batch.split_whitespace().map(write).collect();
            assert_eq!(runs(&batch), expected);
        }
    }
}
