//! `peek`, `list`, `list_group`, `count`, `histogram`, `overview`: looking without touching.

use crate::{
    Client, Error, Group, MessageId, ShardId, Topic, UnixMillis,
    client::UnixMicros,
    envelope::{Envelope, EnvelopeError},
    reply::Reply,
    script::Verb,
    verbs::Cursor,
};
use serde::Serialize;
use std::time::Duration;

/// Which messages a listing shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListState {
    /// By due time.
    Delayed,
    /// In the order of the ready queue.
    Ready,
    /// By the end of their lease.
    Leased,
    /// By the time of their death.
    Dead {
        /// The newest first.
        newest_first: bool,
    },
}

/// Which messages of a topic a listing shows.
#[derive(Clone, Copy)]
pub(crate) struct Query<'a> {
    pub(crate) topic: &'a Topic,
    pub(crate) state: ListState,
    /// Up to this time; down to it where the newest come first.
    pub(crate) to: UnixMillis,
}

/// A message as it is found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The shard it lives in.
    pub shard: ShardId,
    /// Its topic.
    pub topic: Topic,
    /// Its id.
    pub id: MessageId,
    /// What is stored of it, or why that cannot be read.
    pub envelope: Result<Envelope, EnvelopeError>,
}

/// One page of a listing of one shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ListPage {
    /// The messages; a page may have none and still not be the last.
    pub(crate) messages: Vec<Listed>,
    /// Where the next page begins; `None`: through.
    pub(crate) next: Option<Cursor>,
}

/// The numbers of one topic, of one shard or summed over all. Accepted is delivered, cancelled, expired, purged,
/// replaced, delayed, ready, leased and dead together: otherwise messages were lost.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Numbers {
    /// Waiting for their due time.
    pub delayed: u64,
    /// In the ready queue.
    pub ready: u64,
    /// Reserved.
    pub leased: u64,
    /// Among the dead letters.
    pub dead: u64,
    /// Ever accepted.
    pub accepted: u64,
    /// Ever delivered and acked.
    pub delivered: u64,
    /// Ever cancelled.
    pub cancelled: u64,
    /// Ever expired.
    pub expired: u64,
    /// Ever thrown away by an operator.
    pub purged: u64,
    /// Ever replaced by another put.
    pub replaced: u64,
    /// Ever moved to the dead letters, also more than once.
    pub buried: u64,
    /// The first due time of what is delayed, or earlier (what it stood for may be cancelled).
    pub next_due: Option<UnixMillis>,
    /// In how many shards the topic is paused.
    pub paused: u16,
    /// Its rate in messages a second, all shards together; `None`: no bound.
    pub rate: Option<f64>,
}

/// How many messages become due in an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Slot {
    /// Where the interval begins.
    pub start: UnixMillis,
    /// How many.
    pub count: u64,
}

/// What a shard says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Overview {
    /// Redis's clock.
    #[serde(skip)]
    pub now: UnixMicros,
    /// When it has to be looked at next.
    pub next_due: Option<UnixMillis>,
    /// The epoch of its owner.
    pub epoch: u64,
    /// Its owner's name; empty: it never had one.
    pub owner: String,
    /// Whether it is held, because its clock is not trusted.
    pub held: bool,
    /// Leases.
    pub leases: u64,
    /// Finished ids that it remembers.
    pub markers: u64,
    /// How many topics it ever had, those that were deleted included.
    pub topics: u64,
}

/// A topic in a shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicHere {
    /// Its name.
    pub topic: Topic,
    /// Whether it has a ready queue there: somebody should look into it.
    pub waiting: bool,
}

/// Some of the topics of a shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicsPage {
    /// At most 500.
    pub topics: Vec<TopicHere>,
    /// The number of the topic that the next page begins with; `None`: this is the last one.
    pub next: Option<u64>,
}

// === impl Client ===

impl Client {
    /// Looks at messages of one topic in one shard: at most 500. `None`: nothing is known.
    pub(crate) async fn peek_call(
        &self,
        shard: ShardId,
        topic: &Topic,
        ids: &[&MessageId],
    ) -> Result<Vec<Option<Listed>>, Error> {
        let mut call = self.call(Verb::Peek, shard).arg(topic.as_str());
        ids.iter().for_each(|id| call.push(id.as_bytes()));
        let mut reply = Reply::new(Verb::Peek, self.send(call).await?)?;
        reply.number()?;
        let listed = |id: &&MessageId| {
            let bytes = reply.bytes()?;
            let envelope = || Envelope::decode(&bytes);
            let listed = || Listed { shard, topic: topic.clone(), id: (*id).clone(), envelope: envelope() };
            Ok((!bytes.is_empty()).then(listed))
        };
        ids.iter().map(listed).collect()
    }

    /// One page of the messages of a topic in one shard.
    pub(crate) async fn list_call(
        &self,
        shard: ShardId,
        query: Query<'_>,
        cursor: &Cursor,
        limit: u16,
    ) -> Result<ListPage, Error> {
        let Query { topic, state, to } = query;
        let (word, order) = state.words();
        let call = self.call(Verb::List, shard).arg(topic.as_str()).arg(word).cursor_time(cursor);
        let call = call.arg(to.get()).arg(order).cursor_entry(cursor).arg(limit);
        let mut reply = Reply::new(Verb::List, self.send(call).await?)?;
        reply.number()?;
        let next = Cursor::read(&mut reply)?;
        let mut messages = Vec::new();
        while !reply.is_empty() {
            messages.push(listed(shard, topic.clone(), &mut reply)?);
        }
        Ok(ListPage { messages, next })
    }

    /// One page of the pending messages of a group in one shard, and how many it has there.
    pub(crate) async fn list_group_call(
        &self,
        shard: ShardId,
        group: &Group,
        cursor: &Cursor,
        limit: u16,
    ) -> Result<(ListPage, u64), Error> {
        let call = self.call(Verb::ListGroup, shard).arg(group.as_str()).cursor(cursor).arg(limit);
        let mut reply = Reply::new(Verb::ListGroup, self.send(call).await?)?;
        reply.number()?;
        let total = reply.number()?;
        let next = Cursor::read(&mut reply)?;
        let mut messages = Vec::new();
        while !reply.is_empty() {
            let topic = Topic::new(reply.text()?)?;
            messages.push(listed(shard, topic, &mut reply)?);
        }
        Ok((ListPage { messages, next }, total))
    }

    /// The numbers of a topic in one shard.
    pub(crate) async fn count_call(&self, shard: ShardId, topic: &Topic) -> Result<Numbers, Error> {
        let mut numbers = Numbers::default();
        let mut cursor = Some(0);
        while let Some(at) = cursor {
            let call = self.call(Verb::Count, shard).arg(topic.as_str()).arg(at);
            let mut reply = Reply::new(Verb::Count, self.send(call).await?)?;
            cursor = reply.maybe_number()?;
            numbers.delayed += reply.number()?;
            numbers.next_due = numbers.next_due.or(reply.maybe_number()?.map(UnixMillis::new));
            if !reply.is_empty() {
                numbers.read_totals(&mut reply)?;
            }
        }
        Ok(numbers)
    }

    /// One page of a histogram of one shard, and where the next begins.
    pub(crate) async fn histogram_call(
        &self,
        shard: ShardId,
        topic: &Topic,
        range: (UnixMillis, UnixMillis),
        width: Duration,
    ) -> Result<(Vec<Slot>, Option<UnixMillis>), Error> {
        let call = self.call(Verb::Histogram, shard).arg(topic.as_str());
        let call = call.arg(range.0.get()).arg(range.1.get()).arg(width.as_millis() as u64);
        let mut reply = Reply::new(Verb::Histogram, self.send(call).await?)?;
        let next = reply.maybe_number()?.map(UnixMillis::new);
        let mut slots = Vec::new();
        while !reply.is_empty() {
            slots.push(Slot { start: UnixMillis::new(reply.number()?), count: reply.number()? });
        }
        Ok((slots, next))
    }

    /// What shards say of themselves, all in one round trip, at a cost that does not grow with what they hold.
    pub async fn overview(&self, shards: &[ShardId]) -> Vec<Result<Overview, Error>> {
        let calls: Vec<_> = shards.iter().map(|&shard| self.call(Verb::Overview, shard).arg(0)).collect();
        let replies = self.send_all(calls).await.into_iter();
        replies.map(|reply| Ok(overview(&mut Reply::new(Verb::Overview, reply?)?)?.0)).collect()
    }

    /// The topics of a shard, by pages of 500.
    ///
    /// # Errors
    /// Redis cannot be used.
    pub async fn topics(&self, shard: ShardId) -> Result<Vec<TopicHere>, Error> {
        let (mut topics, mut next) = (Vec::new(), Some(1));
        while let Some(first) = next {
            let call = self.call(Verb::Overview, shard).arg(first);
            let page = topics_page(self.send(call).await?)?;
            topics.extend(page.topics);
            next = page.next;
        }
        Ok(topics)
    }

    /// One page of the topics of each of these shards, from the topic of this number on (the first has 1), all in one
    /// round trip.
    pub async fn topics_pages(&self, pages: &[(ShardId, u64)]) -> Vec<Result<TopicsPage, Error>> {
        let call = |&(shard, first): &(ShardId, u64)| self.call(Verb::Overview, shard).arg(first.max(1));
        let replies = self.send_all(pages.iter().map(call).collect()).await;
        replies.into_iter().map(|reply| topics_page(reply?)).collect()
    }
}

// === impl ListState ===

impl ListState {
    const fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Delayed => ("delayed", "asc"),
            Self::Ready => ("ready", "asc"),
            Self::Leased => ("leased", "asc"),
            Self::Dead { newest_first: false } => ("dead", "asc"),
            Self::Dead { newest_first: true } => ("dead", "desc"),
        }
    }
}

// === impl Numbers ===

impl Numbers {
    /// What is not over: delayed, ready and leased.
    pub const fn pending(&self) -> u64 {
        self.delayed + self.ready + self.leased
    }

    /// Whether nothing is missing and nothing is too many.
    pub const fn balances(&self) -> bool {
        self.accepted
            == self.delivered
                + self.cancelled
                + self.expired
                + self.purged
                + self.replaced
                + self.dead
                + self.pending()
    }

    /// Adds the numbers of another shard.
    pub fn add(&mut self, other: &Self) {
        self.delayed += other.delayed;
        self.ready += other.ready;
        self.leased += other.leased;
        self.dead += other.dead;
        self.accepted += other.accepted;
        self.delivered += other.delivered;
        self.cancelled += other.cancelled;
        self.expired += other.expired;
        self.purged += other.purged;
        self.replaced += other.replaced;
        self.buried += other.buried;
        self.paused += other.paused;
        self.next_due = [self.next_due, other.next_due].into_iter().flatten().min();
        self.rate = match (self.rate, other.rate) {
            (Some(one), Some(two)) => Some(one + two),
            (one, two) => one.or(two),
        };
    }

    fn read_totals(&mut self, reply: &mut Reply) -> Result<(), Error> {
        for number in [
            &mut self.ready,
            &mut self.leased,
            &mut self.dead,
            &mut self.accepted,
            &mut self.delivered,
            &mut self.cancelled,
            &mut self.expired,
            &mut self.purged,
            &mut self.replaced,
            &mut self.buried,
        ] {
            *number = reply.counter()?;
        }
        self.paused = u16::from(reply.maybe_number()?.is_some());
        self.rate = reply.text()?.parse().ok();
        Ok(())
    }
}

fn listed(shard: ShardId, topic: Topic, reply: &mut Reply) -> Result<Listed, Error> {
    let id = reply.bytes()?;
    let id = MessageId::from_bytes(&id).ok_or_else(|| reply.nonsense(&String::from_utf8_lossy(&id)))?;
    Ok(Listed { shard, topic, id, envelope: Envelope::decode(&reply.bytes()?) })
}

/// The shard itself, and the number that the next page of its topics begins with.
fn topics_page(answer: redis::Value) -> Result<TopicsPage, Error> {
    let mut reply = Reply::new(Verb::Overview, answer)?;
    let (_, next) = overview(&mut reply)?;
    let mut topics = Vec::new();
    while !reply.is_empty() {
        let topic = Topic::new(reply.text()?)?;
        topics.push(TopicHere { topic, waiting: !reply.bytes()?.is_empty() });
    }
    Ok(TopicsPage { topics, next })
}

fn overview(reply: &mut Reply) -> Result<(Overview, Option<u64>), Error> {
    let overview = Overview {
        now: UnixMicros(reply.number()?),
        next_due: reply.maybe_number()?.map(UnixMillis::new),
        epoch: reply.number()?,
        owner: reply.text()?,
        held: !reply.bytes()?.is_empty(),
        leases: reply.number()?,
        markers: reply.number()?,
        topics: reply.number()?,
    };
    Ok((overview, reply.maybe_number()?))
}
