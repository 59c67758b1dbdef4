//! The producer: puts, cancels and reschedules, many callers over one connection.
//!
//! Calls that wait at the same time go together: while one pipeline is under way, what comes in is gathered for the
//! next. So a single caller waits for nobody, and many callers reach what batches reach.

mod changing;
#[cfg(not(feature = "spool"))]
mod failing;
mod sending;
#[cfg(feature = "spool")]
mod spooling;

use crate::{
    Client, Error, Fate, Group, MAX_BYTES_A_CALL, MAX_IDS_A_CALL, Message, MessageId, PutOutcome, Reference,
    ShardId, Topic, clock, gather::Gathering, verbs::put,
};
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
    /// How many pipelines are under way at once, 1 to 64. Default 2: one at work, one on its way.
    pub in_flight: usize,
    /// Where puts go that cannot reach Redis; `None`: they fail.
    #[cfg(feature = "spool")]
    pub spool: Option<crate::Spool>,
}

/// A producer. Cheap to clone: all clones share one queue; it ends with the last of them.
#[derive(Clone, Debug)]
pub struct Producer {
    client: Client,
    queue: mpsc::Sender<Waiting>,
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
    /// Whether another shift of the same group is under way; then nothing was done.
    pub busy: bool,
}

#[derive(Debug)]
struct Waiting {
    message: Message,
    shard: ShardId,
    answer: oneshot::Sender<Result<PutOutcome, Error>>,
}

// === impl ProducerOptions ===

impl Default for ProducerOptions {
    fn default() -> Self {
        Self {
            linger: Duration::ZERO,
            in_flight: 2,
            #[cfg(feature = "spool")]
            spool: None,
        }
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

    /// The shard it is looked for in.
    pub fn shard(&self, client: &Client) -> ShardId {
        match self.id {
            MessageId::Generated(_) => client.shard_of(&self.id, None),
            MessageId::Own(_) => client.shard_of(&self.id, self.group.as_ref()),
        }
    }
}

// === impl Producer ===

impl Producer {
    /// Starts a producer, and the task that gathers its puts.
    #[cfg_attr(
        not(feature = "spool"),
        allow(clippy::needless_pass_by_value, reason = "a spool is taken along")
    )]
    pub fn start(client: Client, options: ProducerOptions) -> Self {
        let (queue, waiting) = mpsc::channel(QUEUE);
        let gathering = Gathering {
            most: MAX_IDS_A_CALL,
            in_flight: options.in_flight.clamp(1, 64),
            linger: options.linger,
        };
        let sender = Sender(client.clone());
        tokio::spawn(async move { gathering.run(waiting, |gathered| sender.send(gathered)).await });
        Self {
            client,
            queue,
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
    pub async fn put(&self, mut message: Message) -> Result<Put, PutError> {
        let shard = self.place(&mut message, self.client.present_shard())?;
        let reference = reference(shard, &message);
        let result = self.put_retrying(shard, message).await;
        match result {
            Ok(outcome) => Ok(Put { reference, outcome }),
            Err(error) => Err(PutError { reference: Some(reference), error }),
        }
    }

    /// Puts many messages, in as few calls as the limits allow. One answer each, in order; one message's fault does
    /// not stop the others.
    pub async fn put_many(&self, messages: Vec<Message>) -> Vec<Result<Put, PutError>> {
        let mut answers: Vec<Option<Result<Put, PutError>>> = messages.iter().map(|_| None).collect();
        let mut batches: HashMap<(ShardId, Topic), Vec<(usize, Message)>> = HashMap::new();
        let mut fallback = self.client.next_shard();
        for (i, mut message) in messages.into_iter().enumerate() {
            if i > 0 && i % MAX_IDS_A_CALL == 0 {
                fallback = self.client.next_shard();
            }
            match self.place(&mut message, fallback) {
                Err(error) => answers[i] = Some(Err(error)),
                Ok(shard) => batches.entry((shard, message.topic.clone())).or_default().push((i, message)),
            }
        }
        for ((shard, topic), mut batch) in batches {
            while !batch.is_empty() {
                let rest = batch.split_off(calls_worth(batch.iter().map(|(_, message)| message)));
                for (i, answer) in self.put_batch(shard, &topic, std::mem::replace(&mut batch, rest)).await {
                    answers[i] = Some(answer);
                }
            }
        }
        answers.into_iter().map(|answer| answer.expect("every message is in one batch")).collect()
    }

    async fn put_batch(
        &self,
        shard: ShardId,
        topic: &Topic,
        batch: Vec<(usize, Message)>,
    ) -> Vec<(usize, Result<Put, PutError>)> {
        let messages: Vec<&Message> = batch.iter().map(|(_, message)| message).collect();
        let tried = clock::now();
        let mut result = self.client.put_call(shard, topic, &messages).await;
        if result.as_ref().is_err_and(Error::is_outage) {
            let first_fate = result.as_ref().err().map(Error::fate);
            result = self.client.put_call(shard, topic, &messages).await;
            if let (Err(error), Some(Fate::Unknown)) = (&result, first_fate) {
                result = Err(error.clone().into_unknown());
            }
        }
        let outcomes = match result {
            Ok(outcomes) => outcomes.into_iter().map(Ok).collect(),
            Err(error) => self.spool_or(error, &messages, tried).await,
        };
        let answer = |((i, message), outcome): ((usize, Message), Result<PutOutcome, Error>)| {
            let reference = reference(shard, &message);
            let answer = match outcome {
                Ok(outcome) => Ok(Put { reference, outcome }),
                Err(error) => Err(PutError { reference: Some(reference), error }),
            };
            (i, answer)
        };
        batch.into_iter().zip(outcomes).map(answer).collect()
    }

    /// One put, tried a second time where the connection failed: a repeat with the same id is recognised.
    async fn put_retrying(&self, shard: ShardId, message: Message) -> Result<PutOutcome, Error> {
        let tried = clock::now();
        let first = match self.put_queued(shard, message.clone()).await {
            Err(error) if error.is_outage() => error,
            answer => return answer,
        };
        let second = match self.put_queued(shard, message.clone()).await {
            Err(error) if error.is_outage() => error,
            answer => return answer,
        };
        let error = if first.fate() == Fate::Unknown { second.into_unknown() } else { second };
        self.spool_or(error, &[&message], tried).await.pop().expect("one answer for one message")
    }

    async fn put_queued(&self, shard: ShardId, message: Message) -> Result<PutOutcome, Error> {
        let (answer, answered) = oneshot::channel();
        self.queue.send(Waiting { message, shard, answer }).await.map_err(|_| Error::Closed)?;
        answered.await.map_err(|_| Error::Closed)?
    }

    /// Checks a message, and finds its shard and its id.
    fn place(&self, message: &mut Message, fallback: ShardId) -> Result<ShardId, PutError> {
        let placed = message
            .check(self.client.most_payload_bytes())
            .and_then(|()| put::place(&self.client, message, fallback, clock::now()));
        placed.map_err(|error| PutError { reference: None, error: error.into() })
    }
}

fn reference(shard: ShardId, message: &Message) -> Reference {
    Reference { shard, id: message.id.clone().expect("a message has its id once it is placed") }
}

/// How many of the messages fit into one call.
fn calls_worth<'a>(messages: impl Iterator<Item = &'a Message>) -> usize {
    let mut bytes = 0;
    let fits = |message: &&Message| {
        bytes += message.payload.len() + 64;
        bytes <= MAX_BYTES_A_CALL
    };
    messages.take(MAX_IDS_A_CALL).take_while(fits).count().max(1)
}
