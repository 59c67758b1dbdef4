//! The producer: puts, cancels and reschedules of many callers over one connection.
//!
//! Waiting puts share calls: while a call to a shard is in flight, further puts for that shard are gathered for the
//! next call. A single caller therefore never waits for other callers, and many callers reach the throughput of
//! batches.

mod byte_budget;
mod changing;
mod dating;
mod finishing;
mod puts;
mod putting;
mod queues;
mod recorded;
mod sending;
mod spooling;
mod targets;
mod under_way;
mod waiting;

use crate::client::Client;
use crate::clock;
use crate::error::Error;
use crate::options::PAYLOAD;
use crate::placing::{Placed, Placing};
use crate::setters::setters;
use crate::silence::Silence;
use delayq_core::fate::{Advice, Fate};
use delayq_core::id::Topic;
use delayq_core::limits::MAX_IDS_A_CALL;
use delayq_core::message::{Message, check};
use delayq_core::shard::ShardId;
use delayq_core::spool::Spool;
use delayq_core::target::Reference;
use delayq_core::verbs::put::PutOutcome;
use queues::PutQueues;
pub use recorded::Recorded;
use sending::Sender;
use std::fmt;
use std::sync::Arc;
use under_way::UnderWay;

/// The options of a producer.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ProducerOptions {
    /// Takes puts that cannot reach Redis; `None`: puts fail instead.
    pub spool: Option<Arc<dyn Spool>>,
}

/// A producer. Cheap to clone: all clones share the queues, which end with the last clone.
#[derive(Clone)]
#[must_use = "a dropped producer cannot put"]
pub struct Producer {
    client: Client,
    placing: Placing,
    queues: Arc<PutQueues>,
    spool: Option<Arc<dyn Spool>>,
    silence: Silence,
    under_way: UnderWay,
}

/// The outcome of a put, with the reference to the message.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Put {
    /// The reference by which later calls find the message.
    pub reference: Reference,
    /// The outcome of the put.
    pub outcome: PutOutcome,
}

/// A put without an answer. A repeat with the id of `reference` is safe: Redis recognises a put that was carried out.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{}: {error}; {}", self.what(), self.advice())]
pub struct PutError {
    /// The id, group and shard of the attempt.
    pub reference: Option<Reference>,
    /// The reason, and the fate of the put.
    #[source]
    pub error: Error,
}

/// The result of cancelling or shifting a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
#[must_use = "a busy shift must be repeated"]
pub struct GroupTally {
    /// Messages that were cancelled or moved.
    pub changed: u64,
    /// Messages that are leased, or that could not be moved.
    pub passed: u64,
    /// True while another shift of the same group is in progress: repeat under the same token later. If the group has
    /// several shards since a growth, the shift may be complete on some shards.
    pub busy: bool,
    /// True if the change is in the spool on this host's disk, to be made once Redis is reachable; both counts are 0
    /// then.
    pub spooled: bool,
}

// === impl ProducerOptions ===

impl ProducerOptions {
    setters! {
        spool: Arc<dyn Spool> => Some(spool),
    }
}

// === impl PutError ===

impl PutError {
    fn what(&self) -> &'static str {
        match self.error.fate() {
            Fate::NotApplied => "the message was not put",
            Fate::Unknown => "the message may or may not have been put",
        }
    }

    fn advice(&self) -> String {
        match (self.error.fate(), self.error.advice(), &self.reference) {
            (Fate::Unknown, _, Some(Reference { id, .. })) => {
                format!("repeat the put with the id {id}: a stored message is not put twice")
            }
            (_, Advice::Retry, _) => "repeat it".to_owned(),
            (_, Advice::GiveUp, _) => "repeating fails until this is fixed".to_owned(),
        }
    }
}

// === impl Producer ===

impl Producer {
    /// Starts a producer.
    pub fn start(client: Client, options: ProducerOptions) -> Self {
        let silence = Silence::new(client.calls.clone(), options.spool.is_some());
        let placing = Placing::new(&client, silence.clone());
        let sender = Sender { placing: placing.clone() };
        let queues = Arc::new(PutQueues::new(sender));
        Self { client, placing, queues, spool: options.spool, silence, under_way: UnderWay::default() }
    }

    /// Reads the policy of a topic ahead of the first put. Otherwise the first puts are stored uncompressed.
    ///
    /// # Errors
    /// Redis cannot be used.
    pub async fn warm(&self, topic: &Topic) -> Result<(), Error> {
        self.client.payloads.refresh_codecs(std::slice::from_ref(topic)).await
    }

    /// The deployment.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Puts one message, in a call shared with waiting puts of other callers.
    ///
    /// If the future is dropped, a message that was not sent yet is dropped too; a message that was sent may still be
    /// put. A later put, cancel or reschedule of the same id by this producer, or a change of its group, waits until
    /// the fate is known: after an abandoned put, a cancel that answers *unknown* therefore stays true.
    ///
    /// # Errors
    /// A message that breaks a limit; a Redis that cannot be used, without a spool. With fate *unknown* the put may
    /// have been carried out: repeat the put with the same id.
    pub async fn put(&self, message: Message) -> Result<Put, PutError> {
        let put = self.place(message, self.placing.present_shard())?;
        self.put_in_order(vec![put]).await.pop().expect("each message has one answer")
    }

    /// Puts many messages, in calls shared with waiting puts of other callers: messages of one shard share a call, and
    /// the calls of all shards share a pipeline, as far as the limits allow. Returns one answer for each message, in
    /// order; a faulty message does not stop other messages.
    #[must_use = "each has its own answer"]
    pub async fn put_many(&self, messages: Vec<Message>) -> Vec<Result<Put, PutError>> {
        let mut answers: Vec<Option<Result<Put, PutError>>> = messages.iter().map(|_| None).collect();
        let (mut items, mut puts) = (Vec::with_capacity(messages.len()), Vec::with_capacity(messages.len()));
        // Sending moves on to the next shard; here, messages that fill more than one call are spread over several
        // shards.
        let mut fallback = self.placing.present_shard();
        for (i, message) in messages.into_iter().enumerate() {
            if i > 0 && i % MAX_IDS_A_CALL == 0 {
                fallback = self.placing.next_shard();
            }
            match self.place(message, fallback) {
                Err(error) => answers[i] = Some(Err(error)),
                Ok(put) => {
                    items.push(i);
                    puts.push(put);
                }
            }
        }
        for (i, answer) in items.into_iter().zip(self.put_in_order(puts).await) {
            answers[i] = Some(answer);
        }
        answers.into_iter().map(|answer| answer.expect("every message is refused or put")).collect()
    }

    pub(crate) fn outage(&self, shard: ShardId) -> Option<Error> {
        self.silence.outage(shard)
    }

    /// The node may be silent, or may have lost shards.
    pub(crate) fn note(&self, shard: ShardId, error: &Error) {
        self.placing.note(shard, error);
    }

    /// Also checks the message.
    fn place(&self, mut message: Message, fallback: ShardId) -> Result<Placed, PutError> {
        let is_free = message.id.is_none() && message.group.is_none();
        let refused = |error| PutError { reference: None, error };
        let most = PAYLOAD.check(self.client.max_payload_bytes).map_err(|odd| refused(odd.into()))?;
        let place =
            check(&message, most).and_then(|()| self.placing.place(&mut message, fallback, clock::now()));
        let place = place.map_err(|error| refused(error.into()))?;
        Ok(Placed::new(message, place, is_free))
    }
}

impl fmt::Debug for Producer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Producer").field("client", &self.client).finish_non_exhaustive()
    }
}

fn reference(shard: ShardId, message: &Message) -> Reference {
    let id = message.id.clone().expect("a message has its id once it is placed");
    Reference { shard, id, group: message.group.clone() }
}
