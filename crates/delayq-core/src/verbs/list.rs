//! `peek`, `list`, `list_group`: reading messages without changing them.

use super::cursor::Cursor;
use crate::call::Call;
use crate::envelope::{Envelope, EnvelopeError};
use crate::id::{Group, MessageId, Topic};
use crate::reply::{Reply, ReplyError, Value};
use crate::script::Verb;
use crate::shard::ShardId;
use crate::target::Target;
use crate::time::UnixMillis;

/// The state of listed messages, with the order of the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListState {
    /// By due time.
    Delayed,
    /// In the order of the ready queue.
    Ready,
    /// By the end of the lease.
    Leased,
    /// By the time of death.
    Dead {
        /// The newest first.
        newest_first: bool,
    },
}

/// The selection of a listing.
#[derive(Clone, Copy)]
pub struct Query<'a> {
    /// The topic.
    pub topic: &'a Topic,
    /// The state.
    pub state: ListState,
    /// Upper bound of the time; with the newest first, the lower bound.
    pub to: UnixMillis,
}

/// A listed message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The shard of the message.
    pub shard: ShardId,
    /// The topic.
    pub topic: Topic,
    /// The id.
    pub id: MessageId,
    /// The group, even of an unreadable or finished message, if its id is an own id.
    pub group: Option<Group>,
    /// The envelope, or why it is unreadable.
    pub envelope: Result<Envelope, EnvelopeError>,
}

/// A page of a listing of one shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListPage {
    /// The messages; an empty page need not be the last.
    pub messages: Vec<Listed>,
    /// The start of the next page; `None` after the last.
    pub next: Option<Cursor>,
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

// === impl Listed ===

impl Listed {
    fn new(shard: ShardId, topic: Topic, target: Target, envelope: Result<Envelope, EnvelopeError>) -> Self {
        let Target { id, group } = target;
        let group = match &id {
            MessageId::Own(_) | MessageId::Odd(_) => group,
            MessageId::Generated(_) => envelope.as_ref().ok().and_then(|envelope| envelope.group.clone()),
        };
        Self { shard, topic, id, group, envelope }
    }

    /// Identifies the message in later calls.
    pub fn target(&self) -> Target {
        Target { id: self.id.clone(), group: self.group.clone() }
    }
}

/// Reads messages of one topic in one shard: at most 500.
pub fn peek(shard: ShardId, topic: &Topic, targets: &[&Target]) -> Call {
    let mut call = Call::new(Verb::Peek, shard).arg(topic.as_bytes());
    targets.iter().for_each(|target| call.push(target.stored()));
    call
}

/// Reads the message of each target; `None`: unknown. An answer may omit the last targets if the messages are large: ask
/// for these again.
///
/// # Errors
/// The reply is malformed, or has no message.
pub fn read_peek(
    reply: Value,
    shard: ShardId,
    topic: &Topic,
    targets: &[&Target],
) -> Result<Vec<Option<Listed>>, ReplyError> {
    let mut reply = Reply::new(Verb::Peek, reply)?;
    reply.number()?;
    let mut found = Vec::new();
    for (at, &target) in targets.iter().enumerate() {
        if at > 0 && reply.is_empty() {
            break;
        }
        let bytes = reply.bytes()?;
        let listed = || Listed::new(shard, topic.clone(), target.clone(), Envelope::decode(&bytes));
        found.push((!bytes.is_empty()).then(listed));
    }
    Ok(found)
}

/// A page of the messages of a topic in one shard.
pub fn topic(shard: ShardId, query: Query<'_>, from: &Cursor, limit: u16) -> Call {
    let Query { topic, state, to } = query;
    let (word, order) = state.words();
    let call = Call::new(Verb::List, shard).arg(topic.as_bytes()).arg(word).cursor_time(from);
    call.number(to.get()).arg(order).cursor_entry(from).number(limit)
}

/// Reads the page.
pub fn read_topic(reply: Value, shard: ShardId, topic: &Topic) -> Result<ListPage, ReplyError> {
    let mut reply = Reply::new(Verb::List, reply)?;
    reply.number()?;
    let next = Cursor::read(&mut reply)?;
    let mut messages = Vec::new();
    while !reply.is_empty() {
        messages.push(listed(shard, topic.clone(), &mut reply)?);
    }
    Ok(ListPage { messages, next })
}

/// A page of the pending messages of a group in one shard.
pub fn group(shard: ShardId, group: &Group, from: &Cursor, limit: u16) -> Call {
    Call::new(Verb::ListGroup, shard).arg(group.as_str()).cursor(from).number(limit)
}

/// Reads the page, and the size of the group in the shard.
pub fn read_group(reply: Value, shard: ShardId) -> Result<(ListPage, u64), ReplyError> {
    let mut reply = Reply::new(Verb::ListGroup, reply)?;
    reply.number()?;
    let total = reply.number()?;
    let next = Cursor::read(&mut reply)?;
    let mut messages = Vec::new();
    while !reply.is_empty() {
        let topic = reply.topic()?;
        messages.push(listed(shard, topic, &mut reply)?);
    }
    Ok((ListPage { messages, next }, total))
}

fn listed(shard: ShardId, topic: Topic, reply: &mut Reply) -> Result<Listed, ReplyError> {
    let id = reply.bytes()?;
    Ok(Listed::new(shard, topic, Target::from_stored(&id), Envelope::decode(&reply.bytes()?)))
}
