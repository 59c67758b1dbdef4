//! The producer: puts, cancels and reschedules, many callers over one connection.
//!
//! Calls that wait at the same time go together: while one pipeline is under way, what comes in is gathered for the
//! next. So a single caller waits for nobody, and many callers reach what batches reach.

mod changing;
#[cfg(not(feature = "spool"))]
mod failing;
mod repeating;
mod room;
mod sending;
#[cfg(feature = "spool")]
mod spooling;

use crate::{
    Client, Error, Group, MAX_BYTES_A_CALL, MAX_IDS_A_CALL, Message, MessageId, PutOutcome, Reference,
    ShardId, Topic,
    client::{calls_worth, in_range},
    clock,
    gather::{Gathering, Weighed},
    placing::{Placed, PutAnswer},
};
use room::{Room, Taken};
use sending::Sender;
use std::{collections::HashMap, time::Duration};
use tokio::sync::{mpsc, oneshot};

/// Puts that may wait to be gathered before callers are held back.
const QUEUE: usize = 4096;

/// How a producer works.
#[derive(Clone, Debug)]
pub struct ProducerOptions {
    /// How long a put waits for others to go with it. Default 0: only as long as the line is busy.
    pub linger: Duration,
    /// How many pipelines are under way at once, 1 to 64; default 4: one at work, the others on their ways. With
    /// `pipeline_bytes` it says what has to cross the network within the deadline of a call: 4 MiB by default, 0.4 s at
    /// 100 Mbit/s.
    pub in_flight: usize,
    /// The most bytes of messages in one pipeline (payloads and headers, and 512 for each), 64 KiB to 4 MiB; default 1 MiB.
    /// A single message may exceed it.
    pub pipeline_bytes: usize,
    /// The most bytes of messages that wait or are under way before callers are held back, 1 MiB to 1 GiB; default 64 MiB.
    pub queue_bytes: usize,
    /// Where puts go that cannot reach Redis; `None`: they fail.
    #[cfg(feature = "spool")]
    pub spool: Option<crate::Spool>,
}

/// A producer. Cheap to clone: all clones share one queue; it ends with the last of them.
#[derive(Clone, Debug)]
pub struct Producer {
    client: Client,
    queue: mpsc::Sender<Waiting>,
    room: Room,
    #[cfg(feature = "spool")]
    spool: Option<crate::Spool>,
}

/// What became of a put, and what finds the message again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Put {
    /// What finds the message again.
    pub reference: Reference,
    /// What became of it.
    pub outcome: PutOutcome,
}

/// A put without an answer. Repeated with the id of `reference` it is safe: what was carried out is recognised.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{error}")]
pub struct PutError {
    /// The id under which it was tried, and its shard.
    pub reference: Option<Reference>,
    /// Why there is no answer, and whether it was carried out.
    pub error: Error,
}

/// Which message: its id, and its group where it has one and the id is its producer's own.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Target {
    /// The id.
    pub id: MessageId,
    /// The group; it says the shard.
    pub group: Option<Group>,
}

/// What cancelling or shifting a group did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupTally {
    /// Messages that were cancelled or moved.
    pub changed: u64,
    /// Messages that somebody holds, or that could not be moved.
    pub passed: u64,
    /// Whether another shift of the same group is under way: repeat it under the same token later. Where the group
    /// has several places since a growth, some of them may be through.
    pub busy: bool,
}

#[derive(Debug)]
struct Waiting {
    put: Placed,
    answer: oneshot::Sender<PutAnswer>,
    _room: Taken,
}

// === impl ProducerOptions ===

impl Default for ProducerOptions {
    fn default() -> Self {
        Self {
            linger: Duration::ZERO,
            in_flight: 4,
            pipeline_bytes: 1 << 20,
            queue_bytes: 64 << 20,
            #[cfg(feature = "spool")]
            spool: None,
        }
    }
}

// === impl Waiting ===

impl Weighed for Waiting {
    fn bytes(&self) -> usize {
        self.put.message.bytes()
    }
}

// === impl Target ===

impl From<MessageId> for Target {
    fn from(id: MessageId) -> Self {
        Self { id, group: None }
    }
}

impl From<Reference> for Target {
    /// A reference of an own id in a group does not tell the group: say it with [`Target::in_group`].
    fn from(reference: Reference) -> Self {
        reference.id.into()
    }
}

impl Target {
    /// The message of this id in this group.
    pub fn in_group(id: MessageId, group: Group) -> Self {
        Self { id, group: Some(group) }
    }

    /// Where it may be, the most likely place first.
    pub(crate) fn places(&self, client: &Client) -> Vec<ShardId> {
        client.known().layout.places_of(&self.id, self.group.as_ref()).newest_first().collect()
    }
}

// === impl Producer ===

impl Producer {
    /// Starts a producer, and the task that gathers its puts. Of an option outside its range the nearest value in it is
    /// taken, and a warning logged.
    #[cfg_attr(
        not(feature = "spool"),
        allow(clippy::needless_pass_by_value, reason = "a spool is taken along")
    )]
    pub fn start(client: Client, options: ProducerOptions) -> Self {
        let (queue, waiting) = mpsc::channel(QUEUE);
        let gathering = Gathering {
            most: MAX_IDS_A_CALL,
            most_bytes: in_range("pipeline_bytes", options.pipeline_bytes, 64 << 10..=MAX_BYTES_A_CALL),
            in_flight: in_range("in_flight", options.in_flight, 1..=64),
            linger: options.linger,
        };
        let sender = Sender(client.clone());
        tokio::spawn(async move { gathering.run(waiting, |gathered| sender.send(gathered)).await });
        Self {
            client,
            queue,
            room: Room::new(in_range("queue_bytes", options.queue_bytes, 1 << 20..=1 << 30) as u32),
            #[cfg(feature = "spool")]
            spool: options.spool,
        }
    }

    /// Reads the policy of a topic ahead of its first put. Without it the first puts are stored uncompressed.
    ///
    /// # Errors
    /// Redis cannot be used.
    pub async fn warm(&self, topic: &Topic) -> Result<(), Error> {
        self.client.refresh_codec(topic).await
    }

    /// The deployment.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Puts one message, together with whoever else waits. A dropped future may have been carried out.
    ///
    /// # Errors
    /// A message that breaks a limit; a Redis that cannot be used, where there is no spool. With fate *unknown* it
    /// may have been carried out: repeat it with the same id.
    pub async fn put(&self, message: Message) -> Result<Put, PutError> {
        let put = self.place(message, self.client.present_shard())?;
        let mut reference = reference(put.place.home(), &put.message);
        match self.put_retrying(put).await {
            Ok((shard, outcome)) => {
                reference.shard = shard;
                Ok(Put { reference, outcome })
            }
            Err(error) => Err(PutError { reference: Some(reference), error }),
        }
    }

    /// Puts many messages, in as few calls as the limits allow. One answer each, in order; one message's fault does
    /// not stop the others.
    pub async fn put_many(&self, messages: Vec<Message>) -> Vec<Result<Put, PutError>> {
        let mut answers: Vec<Option<Result<Put, PutError>>> = messages.iter().map(|_| None).collect();
        let mut batches: HashMap<(ShardId, Topic), Vec<(usize, Placed)>> = HashMap::new();
        let mut fallback = self.client.next_shard();
        for (i, message) in messages.into_iter().enumerate() {
            if i > 0 && i % MAX_IDS_A_CALL == 0 {
                fallback = self.client.next_shard();
            }
            match self.place(message, fallback) {
                Err(error) => answers[i] = Some(Err(error)),
                Ok(put) => {
                    let key = (put.place.at(), put.message.topic.clone());
                    batches.entry(key).or_default().push((i, put));
                }
            }
        }
        for mut batch in batches.into_values() {
            while !batch.is_empty() {
                let rest = batch.split_off(calls_worth(batch.iter().map(|(_, put)| &put.message)));
                let (places, puts): (Vec<usize>, Vec<Placed>) =
                    std::mem::replace(&mut batch, rest).into_iter().unzip();
                let _room = self.room.take(puts.iter().map(|put| put.message.bytes()).sum()).await;
                for (i, answer) in places.into_iter().zip(self.put_batch(puts).await) {
                    answers[i] = Some(answer);
                }
            }
        }
        answers.into_iter().map(|answer| answer.expect("every message is in one batch")).collect()
    }

    /// Checks a message, and finds its places and its id.
    fn place(&self, mut message: Message, fallback: ShardId) -> Result<Placed, PutError> {
        let place = message
            .check(self.client.most_payload_bytes())
            .and_then(|()| self.client.place(&mut message, fallback, clock::now()));
        let place = place.map_err(|error| PutError { reference: None, error: error.into() })?;
        Ok(Placed { message, place, lost: None, first_try: None })
    }
}

fn reference(shard: ShardId, message: &Message) -> Reference {
    Reference { shard, id: message.id.clone().expect("a message has its id once it is placed") }
}
