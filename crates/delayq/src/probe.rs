//! Questions of services about the present state of shards; nothing is changed.

use crate::client::Client;
use crate::error::Error;
use crate::producer::Producer;
use crate::{clock, server};
use delayq_core::call::Call;
use delayq_core::id::{Group, MessageId};
use delayq_core::members::Members;
use delayq_core::reply::Value;
use delayq_core::shard::ShardId;
use delayq_core::time::UnixMillis;
use delayq_core::verbs::cursor::Cursor;
use delayq_core::verbs::{group as group_steps, probe, put};

/// Asks about the present state of shards, and changes nothing.
#[derive(Clone, Copy, Debug)]
pub struct Probe<'a> {
    client: &'a Client,
    /// Knows the silent nodes.
    producer: Option<&'a Producer>,
}

// === impl Probe ===

impl<'a> Probe<'a> {
    /// Asks over this client's connection.
    pub fn new(client: &'a Client) -> Self {
        Self { client, producer: None }
    }

    /// Asks over the connection of this producer. A node that the producer knows to be silent is neither asked nor
    /// waited for, and a node that does not answer is noted as silent.
    pub fn by(producer: &'a Producer) -> Self {
        Self { client: producer.client(), producer: Some(producer) }
    }

    /// The clock of a shard's Redis.
    ///
    /// # Errors
    /// The Redis cannot be reached, or does not allow TIME.
    pub async fn time(&self, shard: ShardId) -> Result<UnixMillis, Error> {
        let time = server::redis_time(&self.client.calls, shard).await?;
        Ok(UnixMillis::new(time.0 / 1000))
    }

    /// Checks that a shard's Redis takes writes now, by a script that may write but writes nothing.
    ///
    /// # Errors
    /// The Redis takes no writes, or cannot be reached.
    pub async fn takes_writes(&self, shard: ShardId) -> Result<(), Error> {
        self.client.calls.ask(probe::request(shard, ["TIME"]), probe::read).await.map(drop)
    }

    /// Checks that the Redis of each of these shards takes messages now, in one round trip. Unlike the check for
    /// [taking writes](Self::takes_writes), this check also covers the memory for messages.
    pub async fn takes_puts(&self, shards: &[ShardId]) -> Vec<Result<(), Error>> {
        let calls = shards.iter().map(|&shard| put::of_none(shard)).collect();
        let would_take = |error: &Error| matches!(error, Error::Redis { code, .. } if code == "DQARG");
        let answers = self.send_all(calls).await.into_iter();
        answers
            .map(|answer| match answer {
                Err(error) if would_take(&error) => Ok(()),
                answer => answer.map(drop),
            })
            .collect()
    }

    /// Checks that each of these shards now confirms changes of groups with the durability of the topics, by cancelling
    /// a group that does not exist; in one round trip and one wait.
    pub async fn confirms_groups(&self, shards: &[ShardId]) -> Vec<Result<(), Error>> {
        let nobodys = |shard| {
            let name = MessageId::generate(shard, clock::now().get()).to_string();
            Members::from(Group::new(name).expect("an id may be a group's name"))
        };
        let begin = Cursor::from(UnixMillis::new(0));
        let cancel = |&shard: &ShardId| group_steps::cancel(shard, &nobodys(shard), &begin, 1);
        let calls = shards.iter().map(cancel).collect();
        let answers = self.send_all(calls).await.into_iter();
        answers.map(|answer| group_steps::read_cancel(answer?).map(drop).map_err(Error::from)).collect()
    }

    /// Skips nodes that are known to be silent. Returns one answer for each call.
    async fn send_all(&self, calls: Vec<Call>) -> Vec<Result<Value, Error>> {
        let Some(producer) = self.producer else { return self.client.calls.send_all(calls).await };
        let shards: Vec<ShardId> = calls.iter().map(|call| call.shard).collect();
        let mut answers: Vec<Option<Result<Value, Error>>> =
            shards.iter().map(|&shard| producer.outage(shard).map(Err)).collect();
        let (which, open): (Vec<usize>, Vec<Call>) =
            calls.into_iter().enumerate().filter(|&(i, _)| answers[i].is_none()).unzip();
        for (i, answer) in which.into_iter().zip(self.client.calls.send_all(open).await) {
            if let Err(error) = &answer {
                producer.note(shards[i], error);
            }
            answers[i] = Some(answer);
        }
        answers.into_iter().map(|answer| answer.expect("each call was sent or is not")).collect()
    }
}
