//! Puts on the road. Each caller is answered at once, however long other puts take.

use super::dating;
use super::waiting::{Answered, Waiting};
use crate::calls::{Again, Batch, Load, Rules, Write};
use crate::clock;
use crate::error::Error;
use crate::placing::{Placed, Placing, PutKey};
use delayq_core::call::Call;
use delayq_core::durability::Waits;
use delayq_core::fate::Fate;
use delayq_core::layout::CallerLayout;
use delayq_core::message::Message;
use delayq_core::reply::{ReplyError, Value};
use delayq_core::shard::ShardId;
use delayq_core::verbs::put::{self, PutItem, PutOutcome};
use std::collections::HashMap;
use tokio::time::Instant;

pub(super) struct Puts {
    placing: Placing,
    /// The puts that are not answered yet.
    waiting: Vec<Option<Waiting>>,
    /// The durability of the queue; `None` after the puts have left the queue.
    waits: Option<Waits>,
    began: Instant,
    until: Instant,
}

// === impl Puts ===

impl Puts {
    pub(super) fn new(placing: &Placing, gathered: Vec<Waiting>, waits: &Waits) -> (Self, Rules<'static>) {
        let rules = Rules::twice(placing.calls());
        let (began, until) = (clock::instant(), rules.until);
        let waiting = gathered.into_iter().map(Some).collect();
        (Self { placing: placing.clone(), waiting, waits: Some(waits.clone()), began, until }, rules)
    }

    /// The puts no longer delay other puts: from now on each put waits for the durability of the topic.
    pub(super) fn leave_queue(&mut self) {
        self.waits = None;
    }

    fn put(&self, item: usize) -> &Placed {
        &self.waiting[item].as_ref().expect("an item in flight has no answer yet").put
    }

    fn items(&self, items: &[usize]) -> Vec<PutItem<'_>> {
        items.iter().map(|&item| self.put(item).item()).collect()
    }

    /// The put stays carried out even if the caller is gone.
    fn answer(&mut self, item: usize, shard: ShardId, answer: Result<PutOutcome, Error>) {
        let Waiting { put, answer: caller, handed } =
            self.waiting[item].take().expect("each item has one answer");
        let _ = caller.send(Answered { shard, message: put.message, answer });
        drop(handed);
    }
}

impl Load for Puts {
    type Key = PutKey;

    fn next_call(&self, item: usize) -> (PutKey, usize) {
        let put = self.put(item);
        (put.key(), put.bytes())
    }

    fn call(&mut self, batch: &Batch<PutKey>) -> Call {
        let (shard, layout, topic) = &batch.key;
        let payloads = self.placing.payloads();
        let stored = |message: &Message| payloads.stored(message);
        let mut call = put::request(*shard, topic, &self.items(&batch.items), stored).under(*layout);
        call.waits = self.waits.clone().unwrap_or_else(|| self.placing.calls().waits(topic));
        call
    }

    fn read(&mut self, batch: &Batch<PutKey>, reply: Value) -> Result<Vec<usize>, ReplyError> {
        let found = put::read(reply, &self.items(&batch.items))?;
        let mut onward = Vec::new();
        for (&item, found) in batch.items.iter().zip(found) {
            match found {
                Some(outcome) => self.answer(item, batch.key.0, Ok(outcome)),
                None => {
                    self.waiting[item].as_mut().expect("the item has no answer yet").put.next_place();
                    onward.push(item);
                }
            }
        }
        Ok(onward)
    }

    fn fail(&mut self, item: usize, shard: ShardId, error: Error) {
        self.placing.note(shard, &error);
        // An earlier attempt without an answer keeps the fate unknown.
        let error = if self.put(item).lost.is_some() { error.into_unknown() } else { error };
        self.answer(item, shard, Err(error));
    }

    fn outage(&self, shard: ShardId) -> Option<Error> {
        self.placing.outage(shard)
    }

    fn write(&self, item: usize) -> Write {
        let put = self.put(item);
        let has_other_shard = put.is_free && put.lost.is_none() && self.placing.has_other_nodes();
        Write { is_placed: true, has_other_shard, may_repeat: !put.is_repeated, ..Write::default() }
    }

    fn change(&mut self, item: usize, again: Again, error: &Error, known: &CallerLayout) -> bool {
        let shard = self.put(item).place.at();
        match again {
            Again::Placement => self.put_mut(item).place_again(known),
            Again::Lost => {
                let began = self.began;
                let put = self.put_mut(item);
                put.is_repeated = true;
                put.lost = put.lost.or((error.fate() == Fate::Unknown).then_some(began));
                true
            }
            Again::OtherShard => {
                self.placing.note(shard, error);
                let elsewhere = self.placing.elsewhere(self.put(item), clock::now());
                elsewhere.is_some_and(|put| {
                    *self.put_mut(item) = put;
                    true
                })
            }
            _ => false,
        }
    }

    /// Drops abandoned puts, and fails the repeats that cannot be dated.
    async fn prepare(&mut self, mut items: Vec<usize>) -> Vec<usize> {
        items.retain(|&item| {
            let is_given_up = self.waiting[item].as_ref().is_none_or(|waiting| waiting.answer.is_closed());
            if is_given_up {
                self.waiting[item] = None;
            }
            !is_given_up
        });
        for (item, error) in self.undated(&items).await {
            let shard = self.put(item).place.home();
            self.fail(item, shard, error);
            items.retain(|&open| open != item);
        }
        items
    }
}

impl Puts {
    fn put_mut(&mut self, item: usize) -> &mut Placed {
        &mut self.waiting[item].as_mut().expect("an item in flight has no answer yet").put
    }

    async fn undated(&mut self, items: &[usize]) -> HashMap<usize, Error> {
        if items.iter().all(|&item| self.put(item).lost.is_none()) {
            return HashMap::new();
        }
        let mut puts: Vec<(usize, &mut Placed)> = self
            .waiting
            .iter_mut()
            .enumerate()
            .filter_map(|(item, waiting)| Some((item, &mut waiting.as_mut()?.put)))
            .collect();
        let (which, mut puts): (Vec<usize>, Vec<&mut Placed>) = puts.drain(..).unzip();
        let dated = dating::date(self.placing.calls(), &mut puts, self.until).await;
        let failed = |(item, dated): (usize, Result<(), Error>)| Some((item, dated.err()?));
        which.into_iter().zip(dated).filter_map(failed).filter(|(item, _)| items.contains(item)).collect()
    }
}
