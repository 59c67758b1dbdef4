//! Repeating puts whose answers were lost: once at once, then by the spool.
//!
//! A repeat says when its first try began, on the clock of its Redis: by that its topic tells what it may have forgotten, and a
//! put that replaces does not replace what it had put itself.

use super::sending::{Handed, Waiting};
use super::{Producer, Put, PutError, reference};
use crate::error::Error;
use crate::placing::{Placed, PutAnswer};
use crate::{clock, server};
use delayq_core::durability::Waits;
use delayq_core::fate::Fate;
use delayq_core::shard::ShardId;
use delayq_core::spool::SpoolRecord;
use delayq_core::time::UnixMillis;
use delayq_core::verbs::put::PutOutcome;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;

/// How often one put is handed over: more changes of its topic's durability while it is under way are none.
const MOST_LANES: usize = 4;

/// How many other nodes are tried for a put whose shard is not there: more that lost their shards at once are none.
const MOST_NODES: usize = 4;

// === impl Producer ===

impl Producer {
    /// Puts messages, in the order of the spool if there is one; those elsewhere whose shard is our choice and not there.
    /// One answer each, in order.
    pub(super) async fn put_retrying(&self, mut puts: Vec<Placed>) -> Vec<Result<Put, PutError>> {
        let mut answers = self.put_in_order(&puts).await;
        for _ in 0..MOST_NODES {
            let elsewhere: Vec<(usize, Placed)> = (0..puts.len())
                .filter(|&i| matches!(answers[i], Err(Error::Uninitialised(_))))
                .filter_map(|i| Some((i, self.placing.elsewhere(&puts[i], clock::now())?)))
                .collect();
            if elsewhere.is_empty() {
                break;
            }
            let (which, again): (Vec<usize>, Vec<Placed>) = elsewhere.into_iter().unzip();
            let repeated = self.put_in_order(&again).await;
            for ((i, put), answer) in which.into_iter().zip(again).zip(repeated) {
                (puts[i], answers[i]) = (put, answer);
            }
        }
        let answers = self.spool_homeless(&puts, answers).await;
        let answer = |(put, answer): (&Placed, Result<_, Error>)| match answer {
            Ok((shard, outcome)) => Ok(Put { reference: reference(shard, &put.message), outcome }),
            Err(error) => Err(PutError { reference: Some(reference(put.place.home(), &put.message)), error }),
        };
        puts.iter().zip(answers).map(answer).collect()
    }

    /// Hands puts whose shard is missing, and that have no other one, to the spool, if there is one.
    async fn spool_homeless(
        &self,
        puts: &[Placed],
        answers: Vec<Result<(ShardId, PutOutcome), Error>>,
    ) -> Vec<Result<(ShardId, PutOutcome), Error>> {
        if self.spool.is_none()
            || !answers.iter().any(|answer| matches!(answer, Err(Error::Uninitialised(_))))
        {
            return answers;
        }
        let tried = clock::now();
        let record =
            |i: usize| SpoolRecord::shared_put(Arc::clone(&puts[i].message), Fate::NotApplied, tried);
        let spooled = |i: usize| (puts[i].place.home(), PutOutcome::Spooled);
        let mut answers: Vec<_> = answers.into_iter().map(|answer| answer.map_err(Arc::new)).collect();
        let may_spool = |error: &Error, _| matches!(error, Error::Uninitialised(_));
        self.spool_outages(&mut answers, may_spool, record, spooled).await;
        answers.into_iter().map(|answer| answer.map_err(Arc::unwrap_or_clone)).collect()
    }

    async fn put_in_order(&self, puts: &[Placed]) -> Vec<Result<(ShardId, PutOutcome), Error>> {
        let began = clock::instant();
        let names = puts.iter().map(Placed::name);
        let record = |i: usize| {
            let tried = clock::wall_time_of(began);
            SpoolRecord::shared_put(Arc::clone(&puts[i].message), Fate::NotApplied, tried)
        };
        let write = |open: Vec<usize>| self.put_twice(open.into_iter().map(|i| puts[i].clone()).collect());
        let spooled = |i: usize| (puts[i].place.home(), PutOutcome::Spooled);
        self.in_order(names, record, write, spooled).await
    }

    /// Puts messages, and those that an outage kept from being answered a second time: a repeat with the same id is
    /// recognised. What was not confirmed has been waited for. Notes whose nodes are silent.
    async fn put_twice(&self, mut puts: Vec<Placed>) -> Vec<Result<(ShardId, PutOutcome), Error>> {
        let began = clock::instant();
        let mut answers = self.put_once(&mut puts).await;
        let unanswered: Vec<usize> = (0..puts.len()).filter(|&i| is_unanswered(&answers[i])).collect();
        if !unanswered.is_empty() {
            let repeat = |&i: &usize| {
                let lost = is_unknown(&answers[i]).then_some(began);
                Placed { lost, ..puts[i].clone() }
            };
            let mut again: Vec<Placed> = unanswered.iter().map(repeat).collect();
            let repeated = self.put_once(&mut again).await;
            for (&i, (at, second)) in unanswered.iter().zip(repeated) {
                answers[i] = (at, second.map_err(|error| after(&answers[i], error)));
            }
        }
        let note = |(at, answer): PutAnswer| match answer {
            Ok(outcome) => Ok((at, outcome)),
            Err(error) => {
                self.note(at, &error);
                Err(error)
            }
        };
        answers.into_iter().map(note).collect()
    }

    /// Puts messages, each where it does not hold up those that wait for less. What its topic asks is known once it was refused.
    /// Repeats that cannot be dated are not sent.
    async fn put_once(&self, puts: &mut [Placed]) -> Vec<PutAnswer> {
        let undated = self.date_repeats(puts).await;
        let dated: Vec<usize> = (0..puts.len()).filter(|i| !undated.contains_key(i)).collect();
        let closed = |put: &Placed| (put.place.home(), Err(Error::Closed));
        let mut answers: Vec<PutAnswer> = puts.iter().map(closed).collect();
        undated.into_iter().for_each(|(i, error)| answers[i].1 = Err(error));
        if dated.is_empty() {
            return answers;
        }
        let mut left = dated;
        for _ in 0..MOST_LANES {
            self.hand_over(puts, &left, &mut answers).await;
            left.retain(|&i| matches!(answers[i].1, Err(Error::Durability(_))));
            if left.is_empty() {
                break;
            }
        }
        answers
    }

    /// Hands these messages to the gathering, and waits for their answers.
    async fn hand_over(&self, puts: &[Placed], which: &[usize], answers: &mut [PutAnswer]) {
        let mut lanes = BTreeMap::<Waits, Vec<usize>>::new();
        for &i in which {
            lanes.entry(self.client.calls.waits(&puts[i].message.topic)).or_default().push(i);
        }
        let mut handed = Vec::with_capacity(which.len());
        for (waits, which) in lanes {
            let lane = self.lanes.of(&waits);
            let bytes = which.iter().map(|&i| puts[i].message.bytes()).sum();
            let room = lane.room.take(bytes).await;
            let named = which.iter().map(|&i| &puts[i]).filter(|put| !put.is_free).map(Placed::name);
            let handed_over = Arc::new(Handed { _room: room, _ticket: self.under_way.begin(named) });
            let hand = |i: usize| {
                let (answer, answered) = oneshot::channel();
                let waiting = Waiting { put: puts[i].clone(), answer, handed: Arc::clone(&handed_over) };
                (waiting, (i, answered))
            };
            let (waiting, answered): (Vec<_>, Vec<_>) = which.into_iter().map(hand).unzip();
            if lane.queue.send(waiting).is_ok() {
                handed.extend(answered);
            }
        }
        for (i, answered) in handed {
            answers[i] = answered.await.unwrap_or_else(|_| (puts[i].place.at(), Err(ended())));
        }
    }

    /// Says of repeats when their first try began, on the clock of their Redis: from its time now, less how long ago it was
    /// by this host's clock. Returns those of which their Redis did not say its time: undated, a repeat would be taken for a
    /// new message.
    async fn date_repeats(&self, puts: &mut [Placed]) -> BTreeMap<usize, Error> {
        let (host_now, asked) = (clock::now(), clock::instant());
        let since = |put: &Placed| match put.message.tried {
            Some(tried) => Some(host_now.since(tried)),
            // Its record says whether the first try arrived.
            None if put.message.record.is_some() => None,
            None => put.lost.map(|began| asked.duration_since(began)),
        };
        let repeats: Vec<(usize, Duration)> = puts
            .iter()
            .enumerate()
            .filter(|(_, put)| put.first_try.is_none())
            .filter_map(|(i, put)| Some((i, since(put)?)))
            .collect();
        let mut undated = BTreeMap::new();
        if repeats.is_empty() {
            return undated;
        }
        let homes: BTreeSet<ShardId> = repeats.iter().map(|&(i, _)| puts[i].place.home()).collect();
        let times = server::times(&self.client.calls, &homes).await;
        for (i, since) in repeats {
            match &times[&puts[i].place.home()] {
                Ok(now) => {
                    // A little late rather than early: what was over before the first try has to be replaced.
                    let now_ms = now.0.div_ceil(1000);
                    puts[i].first_try =
                        Some(UnixMillis::new(now_ms.saturating_sub(since.as_millis() as u64)));
                }
                Err(error) => drop(undated.insert(i, error.clone())),
            }
        }
        undated
    }
}

fn is_unanswered((_, answer): &PutAnswer) -> bool {
    let error = answer.as_ref().err();
    error.is_some_and(|error| error.is_outage() && !matches!(error, Error::Unconfirmed { .. }))
}

fn is_unknown((_, answer): &PutAnswer) -> bool {
    answer.as_ref().is_err_and(|error| error.fate() == Fate::Unknown)
}

/// The error of a second try: what the first one left unknown stays so.
fn after(first: &PutAnswer, second: Error) -> Error {
    if is_unknown(first) { second.into_unknown() } else { second }
}

/// The error of a put that was handed to a gathering which ended with its runtime.
fn ended() -> Error {
    Error::NoAnswer { address: String::new(), why: "the producer's runtime ended".to_owned() }
}
