//! Topics whose writes replicas or a disk do not confirm, and the shards where they do not.
//!
//! Such a write may have been carried out, and its repeat may do so again: a message that was delivered and forgotten
//! meanwhile is delivered once more. Each also waits for as long as a confirmation may take. So after the first one its
//! topic's writes rest without a call, and before any is repeated, a write that changes nothing asks for a confirmation: a
//! cancel of an id that nobody has, in every shard.

use delayq::protocol::{Placement, ShardId};
use delayq::{Error, MessageId, Producer, Target, Topic};
use futures_util::FutureExt as _;
use futures_util::future::join_all;
use std::collections::{HashMap, HashSet};
use std::time::Duration;
use tokio::time::Instant;

/// How long a topic rests until it is asked about again.
const FOR: Duration = Duration::from_secs(5);

/// The topics whose writes are not confirmed.
#[derive(Debug, Default)]
pub(crate) struct Unconfirmed(HashMap<Topic, Noted>);

#[derive(Debug)]
struct Noted {
    /// Where they are not, and why.
    shards: HashMap<ShardId, String>,
    /// When to ask again.
    until: Instant,
}

// === impl Unconfirmed ===

impl Unconfirmed {
    /// Why nothing of this topic is sent to one of these places now.
    pub(crate) fn why(&self, topic: &Topic, places: impl FnOnce() -> Placement) -> Option<String> {
        let shards = &self.0.get(topic)?.shards;
        places().newest_first().find_map(|shard| shards.get(&shard).cloned())
    }

    /// Lets a topic rest after an error that says so: in all shards, until the next [`Self::ask_again`] finds out which.
    pub(crate) fn learn(&mut self, producer: &Producer, topic: &Topic, error: &Error) {
        let now = Instant::now();
        let is_news = self.0.get(topic).is_none_or(|noted| noted.until > now);
        if is_news && matches!(error, Error::Unconfirmed { .. }) {
            let why = error.to_string();
            let shards = producer.client().shards().shards().map(|shard| (shard, why.clone())).collect();
            self.0.insert(topic.clone(), Noted { shards, until: now });
        }
    }

    /// Asks for confirmations of those of these topics that have rested for long enough, all at once. Where the answer is
    /// another one, such as of an outage, their own writes find out.
    pub(crate) async fn ask_again(&mut self, producer: &Producer, topics: impl Iterator<Item = &Topic>) {
        if self.0.is_empty() {
            return;
        }
        let now = Instant::now();
        let due: HashSet<&Topic> =
            topics.filter(|topic| self.0.get(topic).is_some_and(|noted| noted.until <= now)).collect();
        // In boxes: the calls to Redis nest too deep for the compiler to see whether all of it may be sent.
        let asked = join_all(due.into_iter().map(async |topic| (topic, ask(producer, topic).boxed().await)));
        for (topic, shards) in asked.await {
            match shards.is_empty() {
                true => self.0.remove(topic),
                false => self.0.insert(topic.clone(), Noted { shards, until: Instant::now() + FOR }),
            };
        }
    }
}

/// The shards in which a write of this topic that changes nothing is not confirmed, and why.
async fn ask(producer: &Producer, topic: &Topic) -> HashMap<ShardId, String> {
    let now = delayq_service::host_now().get();
    let shards: Vec<ShardId> = producer.client().shards().shards().collect();
    let fresh: Vec<Target> = shards.iter().map(|&shard| MessageId::generate(shard, now).into()).collect();
    let answers = producer.cancel_many(topic, &fresh).await;
    let unconfirmed = |(shard, answer)| match answer {
        Err(error @ Error::Unconfirmed { .. }) => Some((shard, error.to_string())),
        _ => None,
    };
    shards.into_iter().zip(answers).filter_map(unconfirmed).collect()
}
