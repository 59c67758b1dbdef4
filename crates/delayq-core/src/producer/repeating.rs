//! Repeating puts whose answers were lost: once at once, then by the spool.
//!
//! A repeat says when its first try began, on Redis's clock: by that its topic tells what it may have forgotten, and a
//! put that replaces does not replace what it had put itself.

use super::{Producer, Put, PutError, Waiting, reference};
use crate::{
    Error, Fate, Message, UnixMillis, clock,
    placing::{Placed, PutAnswer},
};
use std::time::Duration;
use tokio::sync::oneshot;

// === impl Producer ===

impl Producer {
    /// One put, tried a second time where the connection failed: a repeat with the same id is recognised.
    pub(super) async fn put_retrying(&self, mut put: Placed) -> PutAnswer {
        let (tried, began) = (clock::now(), clock::instant());
        let first = self.put_once(&mut put).await;
        if !is_outage(&first) {
            return first;
        }
        put.lost = is_unknown(&first).then_some(began);
        let second = self.put_once(&mut put).await;
        if !is_outage(&second) {
            return second;
        }
        let error = second.map_or_else(|error| after(&first, error), |_| Error::Closed);
        let spooled = self.spool_or(error, &[&put.message], tried).await.pop();
        spooled.expect("one answer for one message").map(|outcome| (put.place.home(), outcome))
    }

    /// Puts what goes together, and a second time what an outage kept from being answered.
    pub(super) async fn put_batch(&self, mut puts: Vec<Placed>) -> Vec<Result<Put, PutError>> {
        let (tried, began) = (clock::now(), clock::instant());
        let mut answers = self.put_all_once(&mut puts).await;
        let unanswered: Vec<usize> = (0..puts.len()).filter(|&i| is_outage(&answers[i])).collect();
        if !unanswered.is_empty() {
            let repeat = |&i: &usize| {
                let lost = is_unknown(&answers[i]).then_some(began);
                Placed { lost, ..puts[i].clone() }
            };
            let mut again: Vec<Placed> = unanswered.iter().map(repeat).collect();
            let repeated = self.put_all_once(&mut again).await;
            for (&i, second) in unanswered.iter().zip(repeated) {
                answers[i] = second.map_err(|error| after(&answers[i], error));
            }
            self.spool_unanswered(&puts, &mut answers, tried).await;
        }
        let answer = |(put, answer): (&Placed, PutAnswer)| match answer {
            Ok((shard, outcome)) => Ok(Put { reference: reference(shard, &put.message), outcome }),
            Err(error) => Err(PutError { reference: Some(reference(put.place.home(), &put.message)), error }),
        };
        puts.iter().zip(answers).map(answer).collect()
    }

    async fn put_once(&self, put: &mut Placed) -> PutAnswer {
        self.date_repeats(std::slice::from_mut(put)).await?;
        let (answer, answered) = oneshot::channel();
        let _room = self.room.take(put.message.bytes()).await;
        self.queue.send(Waiting { put: put.clone(), answer, _room }).await.map_err(|_| Error::Closed)?;
        answered.await.map_err(|_| Error::Closed)?
    }

    async fn put_all_once(&self, puts: &mut [Placed]) -> Vec<PutAnswer> {
        match self.date_repeats(puts).await {
            Ok(()) => self.client.put_placed(puts).await,
            Err(error) => vec![Err(error); puts.len()],
        }
    }

    /// Says of repeats when their first try began, on Redis's clock: from its time now, less how long ago it was by this
    /// host's clock.
    ///
    /// # Errors
    /// Redis did not say its time: undated, a repeat would be taken for a new message.
    async fn date_repeats(&self, puts: &mut [Placed]) -> Result<(), Error> {
        let (host_now, asked) = (clock::now(), clock::instant());
        let since = |put: &Placed| match put.message.tried {
            Some(tried) => Some(host_now.since(tried)),
            None => put.lost.map(|began| asked.duration_since(began)),
        };
        let undated = puts.iter_mut().filter(|put| put.first_try.is_none());
        let repeats: Vec<(&mut Placed, Duration)> =
            undated.filter_map(|put| since(put).map(|since| (put, since))).collect();
        if repeats.is_empty() {
            return Ok(());
        }
        // A little late rather than early: what was over before the first try has to be replaced.
        let now_ms = self.client.redis_time().await?.0.div_ceil(1000);
        for (put, since) in repeats {
            put.first_try = Some(UnixMillis::new(now_ms.saturating_sub(since.as_millis() as u64)));
        }
        Ok(())
    }

    /// Hands what an outage kept from Redis to the spool, if there is one.
    async fn spool_unanswered(&self, puts: &[Placed], answers: &mut [PutAnswer], tried: UnixMillis) {
        let left: Vec<usize> = (0..puts.len()).filter(|&i| is_outage(&answers[i])).collect();
        // Those that one call failed with share their error, and go to the spool together.
        for fate in [Fate::NotApplied, Fate::Unknown] {
            let of_fate = |&i: &usize| answers[i].as_ref().is_err_and(|error| error.fate() == fate);
            let some: Vec<usize> = left.iter().copied().filter(of_fate).collect();
            let Some(Err(error)) = some.first().map(|&i| answers[i].clone()) else { continue };
            let messages: Vec<&Message> = some.iter().map(|&i| &puts[i].message).collect();
            for (&i, spooled) in some.iter().zip(self.spool_or(error, &messages, tried).await) {
                if let Ok(outcome) = spooled {
                    answers[i] = Ok((puts[i].place.home(), outcome));
                }
            }
        }
    }
}

fn is_outage(answer: &PutAnswer) -> bool {
    answer.as_ref().is_err_and(Error::is_outage)
}

fn is_unknown(answer: &PutAnswer) -> bool {
    answer.as_ref().is_err_and(|error| error.fate() == Fate::Unknown)
}

/// The error of a second try: what the first one left unknown stays so.
fn after(first: &PutAnswer, second: Error) -> Error {
    if is_unknown(first) { second.into_unknown() } else { second }
}
