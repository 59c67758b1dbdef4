//! Topics whose writes replicas or a disk do not confirm, with the shards concerned. The same for changes of groups, which
//! need the strictest confirmation of any topic in the shard.
//!
//! Such a write may have been carried out, and a repeat may do harm: a message that was delivered and forgotten meanwhile is
//! delivered once more, and a group that is cancelled once more loses new messages. Each repeat also waits for as long as a
//! confirmation may take. So after the first unconfirmed write none is repeated until a write without any effect was
//! confirmed: a cancel of an unused id, or of an unused group, in every shard. First tries of messages' writes, and cancels,
//! are sent all the same, at the end of the batch and together; changes of groups are not.

use delayq::protocol::{Placement, Probe, ShardId};
use delayq::{Error, MessageId, Producer, Target, Topic};
use futures_util::FutureExt as _;
use futures_util::future::join_all;
use std::collections::{HashMap, HashSet};
use std::time::Duration;
use tokio::time::Instant;

/// Rest of a topic between two requests for a confirmation.
const FOR: Duration = Duration::from_secs(5);

/// The topics whose writes are not confirmed; `None`: changes of groups are not.
#[derive(Debug, Default)]
pub(crate) struct Unconfirmed(HashMap<Option<Topic>, Noted>);

#[derive(Debug)]
struct Noted {
    /// The shards concerned, with the reason.
    shards: HashMap<ShardId, String>,
    /// Time of the next request.
    until: Instant,
}

// === impl Unconfirmed ===

impl Unconfirmed {
    /// Why no write of this topic, or no change of a group, is sent to these places now.
    pub(crate) fn why(&self, topic: Option<&Topic>, places: impl FnOnce() -> Placement) -> Option<String> {
        if self.0.is_empty() {
            return None;
        }
        let shards = &self.0.get(&topic.cloned())?.shards;
        places().newest_first().find_map(|shard| shards.get(&shard).cloned())
    }

    /// Lets a topic, or changes of groups, rest after an error that says so: in all shards, until the next
    /// [`Self::ask_again`] finds out which.
    pub(crate) fn learn(&mut self, producer: &Producer, topic: Option<&Topic>, error: &Error) {
        if !matches!(error, Error::Unconfirmed { .. }) {
            return;
        }
        let (now, topic) = (Instant::now(), topic.cloned());
        if self.0.get(&topic).is_none_or(|noted| noted.until > now) {
            let why = error.to_string();
            let shards = producer.client().shards().shards().map(|shard| (shard, why.clone())).collect();
            self.0.insert(topic, Noted { shards, until: now });
        }
    }

    /// Requests confirmations for all topics that have rested for long enough, at the same time. After another answer, such
    /// as an outage, the topic's writes find out.
    pub(crate) async fn ask_again(
        &mut self,
        producer: &Producer,
        topics: impl Iterator<Item = Option<&Topic>>,
    ) {
        if self.0.is_empty() {
            return;
        }
        let now = Instant::now();
        let mut due: HashSet<Option<Topic>> = topics.map(Option::<&Topic>::cloned).collect();
        due.retain(|topic| self.0.get(topic).is_some_and(|noted| noted.until <= now));
        // In boxes: the calls to Redis nest too deep for the compiler to prove `Send`.
        let asked = join_all(due.into_iter().map(async |topic| {
            let shards = ask(producer, topic.as_ref()).boxed().await;
            (topic, shards)
        }));
        for (topic, shards) in asked.await {
            match shards.is_empty() {
                true => self.0.remove(&topic),
                false => self.0.insert(topic, Noted { shards, until: Instant::now() + FOR }),
            };
        }
    }
}

/// The shards in which a write of this topic, or a change of a group, that changes nothing is not confirmed, and why.
async fn ask(producer: &Producer, topic: Option<&Topic>) -> HashMap<ShardId, String> {
    let shards: Vec<ShardId> = producer.client().shards().shards().collect();
    let answers = match topic {
        None => Probe::by(producer).confirms_groups(&shards).await,
        Some(topic) => cancel_nothing(producer, topic, &shards).await,
    };
    let unconfirmed = |(shard, answer)| match answer {
        Err(error @ Error::Unconfirmed { .. }) => Some((shard, error.to_string())),
        _ => None,
    };
    shards.into_iter().zip(answers).filter_map(unconfirmed).collect()
}

async fn cancel_nothing(producer: &Producer, topic: &Topic, shards: &[ShardId]) -> Vec<Result<(), Error>> {
    let now = delayq_service::host_now().get();
    let fresh: Vec<Target> = shards.iter().map(|&shard| MessageId::generate(shard, now).into()).collect();
    let answers = producer.cancel_many(topic, &fresh).await.into_iter();
    answers.map(|answer| answer.map(drop)).collect()
}
