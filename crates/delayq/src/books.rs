//! Checking that the books of a shard's topics balance: a few topics in each step, each counted at one instant.

use crate::client::Client;
use crate::error::Error;
use delayq_core::id::Topic;
use delayq_core::shard::ShardId;
use delayq_core::verbs::count::{self, Numbers};
use delayq_core::verbs::overview::{self, TopicHere};

const AT_ONCE: usize = 16;

/// The position of the next step in a shard; the default is the beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BooksAt {
    /// The page of topics; 0 for the first page.
    pub page: u64,
    /// Number of topics of that page that were counted.
    pub passed: usize,
}

/// The books of a few topics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BooksPage {
    /// The position of the next step.
    pub next: BooksAt,
    /// Each topic with the number of messages by which the books are off; `None`: a key has the wrong type, or the
    /// messages are spread over more hours than can be counted at one instant.
    pub topics: Vec<(Topic, Option<u64>)>,
}

pub(crate) async fn books(client: &Client, shard: ShardId, at: BooksAt) -> Result<BooksPage, Error> {
    let from = (at.page != 0).then_some(at.page);
    let page = client.calls.ask(overview::topics(shard, from), overview::read_topics).await?;
    let mut topics = Vec::new();
    for TopicHere { topic, .. } in page.topics.iter().skip(at.passed).take(AT_ONCE) {
        topics.push((topic.clone(), off_by(client, shard, topic).await?));
    }
    let passed = at.passed + AT_ONCE;
    let next = if passed < page.topics.len() {
        BooksAt { passed, ..at }
    } else {
        BooksAt { page: page.next.unwrap_or(0), passed: 0 }
    };
    Ok(BooksPage { next, topics })
}

/// Only a count that completes in its first step is of one instant.
async fn off_by(client: &Client, shard: ShardId, topic: &Topic) -> Result<Option<u64>, Error> {
    let mut numbers = Numbers::default();
    let counted =
        client.calls.ask(count::request(shard, topic, 0), |reply| count::read(reply, &mut numbers)).await;
    match counted {
        Ok(next) => Ok(next.is_none().then(|| numbers.accepted.abs_diff(numbers.accounted()))),
        Err(error) if error.is_outage() => Err(error),
        Err(_) => Ok(None),
    }
}
