//! Putting messages: in the order of the spool, through the queue of the topic's durability.

use super::dating::date;
use super::waiting::{Answered, Handed, Waiting};
use super::{Producer, Put, PutError, reference};
use crate::calls::Rules;
use crate::clock;
use crate::error::Error;
use crate::placing::Placed;
use delayq_core::durability::Waits;
use delayq_core::fate::Fate;
use delayq_core::message::Message;
use delayq_core::shard::ShardId;
use delayq_core::spool::SpoolRecord;
use delayq_core::verbs::put::PutOutcome;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use tokio::sync::oneshot;

/// Puts, and the new ids of the puts that went to a shard of another node.
struct Sending {
    puts: Vec<Placed>,
    elsewhere: Vec<OnceLock<(ShardId, Arc<Message>)>>,
}

// === impl Sending ===

impl Sending {
    fn new(puts: Vec<Placed>) -> Self {
        let elsewhere = puts.iter().map(|_| OnceLock::new()).collect();
        Self { puts, elsewhere }
    }

    fn note(&self, i: usize, answered: &Answered) {
        if !Arc::ptr_eq(&answered.message, &self.puts[i].message) {
            let _ = self.elsewhere[i].set((answered.shard, Arc::clone(&answered.message)));
        }
    }

    fn last(&self, i: usize) -> (ShardId, &Arc<Message>) {
        match self.elsewhere[i].get() {
            Some((shard, message)) => (*shard, message),
            None => (self.puts[i].place.home(), &self.puts[i].message),
        }
    }
}

// === impl Producer ===

impl Producer {
    /// In the order of the spool, if there is a spool. Returns one answer for each put, in order.
    pub(super) async fn put_in_order(&self, puts: Vec<Placed>) -> Vec<Result<Put, PutError>> {
        let (began, sending) = (clock::instant(), Sending::new(puts));
        let record = |i: usize| {
            let tried = clock::wall_time_of(began);
            SpoolRecord::shared_put(Arc::clone(sending.last(i).1), Fate::NotApplied, tried)
        };
        let write = async |open: Vec<usize>| {
            let puts = open.iter().map(|&i| sending.puts[i].clone()).collect();
            let answered = self.put_now(puts).await;
            open.iter().zip(&answered).for_each(|(&i, answered)| sending.note(i, answered));
            let answer = |answered: Answered| answered.answer.map(|outcome| (answered.shard, outcome));
            answered.into_iter().map(answer).collect::<Vec<Result<(ShardId, PutOutcome), Error>>>()
        };
        let names = sending.puts.iter().map(Placed::name);
        let spooled = |i: usize| (sending.last(i).0, PutOutcome::Spooled);
        let answers = self.in_order(names, record, write, spooled).await;
        let answer = |(i, answer): (usize, Result<(ShardId, PutOutcome), Error>)| {
            let (home, message) = sending.last(i);
            match answer {
                Ok((shard, outcome)) => Ok(Put { reference: reference(shard, message), outcome }),
                Err(error) => Err(PutError { reference: Some(reference(home, message)), error }),
            }
        };
        answers.into_iter().enumerate().map(answer).collect()
    }

    /// A repeat that cannot be dated fails.
    async fn put_now(&self, mut puts: Vec<Placed>) -> Vec<Answered> {
        let until = Rules::once(&self.client.calls).until;
        let dated = date(&self.client.calls, &mut puts.iter_mut().collect::<Vec<_>>(), until).await;
        let mut queues = BTreeMap::<Waits, Vec<usize>>::new();
        let mut answers = Vec::with_capacity(puts.len());
        for (i, (put, dated)) in puts.iter().zip(dated).enumerate() {
            let answer = Err(dated.err().unwrap_or(Error::Closed));
            if matches!(answer, Err(Error::Closed)) {
                queues.entry(self.client.calls.waits(&put.message.topic)).or_default().push(i);
            }
            answers.push(Answered { shard: put.place.at(), message: Arc::clone(&put.message), answer });
        }
        let mut handed = Vec::with_capacity(puts.len());
        for (waits, which) in queues {
            handed.extend(self.hand_over(&puts, which, &waits).await);
        }
        for (i, answered) in handed {
            match answered.await {
                Ok(answered) => answers[i] = answered,
                Err(_) => answers[i].answer = Err(ended()),
            }
        }
        answers
    }

    /// Waits for room in the queue.
    async fn hand_over(
        &self,
        puts: &[Placed],
        which: Vec<usize>,
        waits: &Waits,
    ) -> Vec<(usize, oneshot::Receiver<Answered>)> {
        let queue = self.queues.of(waits);
        let taken = queue.budget.take(which.iter().map(|&i| puts[i].bytes()).sum()).await;
        let named = which.iter().map(|&i| &puts[i]).filter(|put| !put.is_free).map(Placed::name);
        let handed = Arc::new(Handed { _taken: taken, _ticket: self.under_way.begin(named) });
        let hand = |i: usize| {
            let (answer, answered) = oneshot::channel();
            (Waiting { put: puts[i].clone(), answer, handed: Arc::clone(&handed) }, (i, answered))
        };
        let (waiting, answered): (Vec<_>, Vec<_>) = which.into_iter().map(hand).unzip();
        if queue.sender.send(waiting).is_ok() { answered } else { Vec::new() }
    }
}

/// The error of a put that was handed to a gathering which ended with its runtime.
fn ended() -> Error {
    Error::NoAnswer { address: String::new(), why: "the producer's runtime ended".to_owned() }
}
