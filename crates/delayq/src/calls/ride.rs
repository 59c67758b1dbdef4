//! The road of every call to a shard. A single loop holds the deadline and the budget of attempts.
//!
//! ```text
//! items ─by key─► calls ─► a round trip ─► answered
//!   ▲               ▲           │ refused
//!   │               └─ the same call, another way ──┤ by `next`
//!   └─ another call: elsewhere, later, once more ───┘
//! ```

use super::grouping::{Batch, batches};
use super::load::Load;
use super::next::{Again, Next, Taught, Write, next};
use super::way::Calls;
use crate::clock;
use crate::error::Error;
use crate::link::Link;
use crate::script_link::{Outgoing, Sent};
use crate::topology::moving;
use delayq_core::call::Call;
use delayq_core::shard::ShardId;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// Maximum rounds of a ride in which a call failed.
const ATTEMPTS: u8 = 16;

/// The limits of a ride, and the refusals that the ride follows.
#[derive(Clone, Copy)]
pub(crate) struct Rules<'r> {
    /// The deadline of all attempts together.
    pub(crate) until: Instant,
    pub(crate) attempt: Duration,
    /// True if the ride follows refusals for the layout and the durability.
    pub(super) follows: bool,
    /// The node that gets every call; `None`: each call goes to the shard's node.
    pub(super) at: Option<&'r Link>,
}

pub(crate) struct Ride<'r, K> {
    calls: Calls,
    rules: Rules<'r>,
    parcels: Vec<Parcel<K>>,
    loose: Vec<usize>,
    attempts: u8,
}

struct Parcel<K> {
    batch: Batch<K>,
    call: Call,
    /// True if the script has to be loaded first.
    loads: bool,
    /// True if the shard's record named the present node.
    is_followed: bool,
}

// === impl Rules ===

impl Rules<'_> {
    /// Limits all attempts to the deadline of one call; the ride repeats a call only after a refusal.
    pub(crate) fn once(calls: &Calls) -> Self {
        let deadline = calls.nodes().settings().deadline;
        Self { until: clock::instant() + deadline, attempt: deadline, follows: true, at: None }
    }

    /// Limits an attempt and the repeat to twice the deadline of a call, for writes that recognise a repeat.
    pub(crate) fn twice(calls: &Calls) -> Self {
        let once = Self::once(calls);
        Self { until: once.until + once.attempt, ..once }
    }
}

// === impl Ride ===

impl<'r, K: Ord + Clone + Send + Sync> Ride<'r, K> {
    pub(crate) fn new(calls: &Calls, rules: Rules<'r>, items: Vec<usize>) -> Self {
        Self { calls: calls.clone(), rules, parcels: Vec::new(), loose: items, attempts: 0 }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.parcels.is_empty() && self.loose.is_empty()
    }

    pub(crate) async fn finish<L: Load<Key = K>>(mut self, load: &mut L) {
        while !self.is_over() {
            self.round(load).await;
        }
    }

    pub(crate) async fn round<L: Load<Key = K>>(&mut self, load: &mut L) {
        self.make_calls(load).await;
        let parcels = std::mem::take(&mut self.parcels);
        let until = self.rules.until.min(clock::instant() + self.rules.attempt);
        let outgoing: Vec<Outgoing<'_>> =
            parcels.iter().map(|parcel| Outgoing { call: &parcel.call, loads: parcel.loads }).collect();
        let mut sent = self.calls.send(&outgoing, self.rules.at, until).await;
        let calls: Vec<&Call> = parcels.iter().map(|parcel| &parcel.call).collect();
        self.explain(&calls, &mut sent).await;
        if sent.iter().any(|sent| sent.answer.is_err()) {
            self.attempts += 1;
        }
        let mut behind = Vec::new();
        for (parcel, sent) in parcels.into_iter().zip(sent) {
            match sent.answer {
                Ok(reply) => match load.read(&parcel.batch, reply) {
                    Ok(more) => self.loose.extend(more),
                    Err(error) => fail(load, &parcel, &error.into()),
                },
                Err(error) => behind.extend(self.failed(load, parcel, error, sent.node.as_deref()).await),
            }
        }
        self.raise(load, behind).await;
    }

    /// Items whose node is known to be silent fail.
    async fn make_calls<L: Load<Key = K>>(&mut self, load: &mut L) {
        if self.loose.is_empty() {
            return;
        }
        let loose = load.prepare(std::mem::take(&mut self.loose)).await;
        let keyed = loose.into_iter().map(|item| {
            let (key, bytes) = load.next_call(item);
            (item, key, bytes)
        });
        for batch in batches(keyed) {
            let mut call = load.call(&batch);
            if self.rules.follows {
                self.calls.complete(&mut call);
            }
            let parcel = Parcel { batch, call, loads: false, is_followed: false };
            match load.outage(parcel.call.shard) {
                Some(outage) => fail(load, &parcel, &outage),
                None => self.parcels.push(parcel),
            }
        }
    }

    async fn explain(&self, calls: &[&Call], sent: &mut [Sent]) {
        if self.rules.follows {
            let explaining = self.calls.explain_missing(calls, sent);
            // Without an explanation the error stays.
            let _ = timeout_at(self.rules.until, explaining).await;
        }
    }

    /// Returns the call if the shard has to be raised first.
    async fn failed<L: Load<Key = K>>(
        &mut self,
        load: &mut L,
        mut parcel: Parcel<K>,
        mut error: Error,
        node: Option<&Link>,
    ) -> Option<Parcel<K>> {
        let taught = self.learn(&mut parcel, &mut error, node).await;
        let is_placed = is_placed(load, &parcel);
        let has_budget = self.attempts < ATTEMPTS && clock::instant() < self.rules.until;
        let write = |write: Write| Write { is_placed, has_budget, ..write };
        if taught == Taught::Node && !has_budget {
            error = moving(parcel.call.shard);
        }
        let first = next(write(Write::default()), &error, taught);
        match first {
            Next::Again(Again::Script) => parcel.loads = true,
            Next::Again(Again::Node) => parcel.is_followed = true,
            Next::Again(Again::Slot | Again::Durability) => {}
            Next::Again(Again::Layout) => parcel.call.layout = Some(self.calls.known().word()),
            Next::Again(Again::Raise) => return Some(parcel),
            _ => {
                let known = self.calls.known();
                for &item in &parcel.batch.items {
                    match next(write(load.write(item)), &error, taught) {
                        Next::Again(again) if load.change(item, again, &error, &known) => {
                            self.loose.push(item);
                        }
                        _ => load.fail(item, parcel.call.shard, error.clone()),
                    }
                }
                return None;
            }
        }
        self.parcels.push(parcel);
        None
    }

    async fn learn(&self, parcel: &mut Parcel<K>, error: &mut Error, node: Option<&Link>) -> Taught {
        if error.is_no_script() {
            return Taught::Script;
        }
        let shard = parcel.call.shard;
        if let Some(node) = node {
            // A record already sent the call to this node: another question would get the same answer.
            let may_ask_until = (!parcel.is_followed).then_some(self.rules.until);
            let place = self.calls.learn_place(node, shard, error, may_ask_until);
            if let Some(taught) = place.await {
                return taught;
            }
        }
        match error {
            _ if !self.rules.follows => Taught::Nothing,
            Error::Durability(asked) => self.calls.learn_durability(&mut parcel.call, *asked),
            Error::Layout { .. } => self.calls.learn_layout(&parcel.call, error, self.rules.until).await,
            _ => Taught::Nothing,
        }
    }

    async fn raise<L: Load<Key = K>>(&mut self, load: &mut L, behind: Vec<Parcel<K>>) {
        if behind.is_empty() {
            return;
        }
        let known = self.calls.known();
        let mut shards: Vec<ShardId> = behind.iter().map(|parcel| parcel.call.shard).collect();
        shards.sort_unstable();
        shards.dedup();
        let raised = self.calls.raise_by(&shards, &known.layout, self.rules.until).await;
        let failed: BTreeMap<ShardId, Error> = shards
            .into_iter()
            .zip(raised)
            .filter_map(|(shard, raised)| Some((shard, raised.err()?)))
            .collect();
        let word = self.calls.known().word();
        for mut parcel in behind {
            match failed.get(&parcel.call.shard) {
                Some(error) => fail(load, &parcel, error),
                None => {
                    // A placed put keeps the layout that placed it: under a newer layout the put would reach the
                    // wrong shard.
                    if !is_placed(load, &parcel) {
                        parcel.call.layout = Some(word);
                    }
                    self.parcels.push(parcel);
                }
            }
        }
    }
}

/// Items that share a call are placed alike.
fn is_placed<L: Load>(load: &L, parcel: &Parcel<L::Key>) -> bool {
    parcel.batch.items.first().is_some_and(|&item| load.write(item).is_placed)
}

fn fail<L: Load>(load: &mut L, parcel: &Parcel<L::Key>, error: &Error) {
    parcel.batch.items.iter().for_each(|&item| load.fail(item, parcel.call.shard, error.clone()));
}
