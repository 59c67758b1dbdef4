//! `put`.

use crate::{
    Client, Error, Message, MessageError, MessageId, ShardId, Topic, UnixMillis,
    client::UnixMicros,
    envelope::State,
    message::Due,
    reply::{Reply, Words},
    script::Verb,
};

/// What became of a put.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PutOutcome {
    /// It is stored, and due at this time.
    Stored(UnixMillis),
    /// It is stored, and was due already: it is ready.
    Ready(UnixMillis),
    /// The same message is there already, from an earlier try. The time is its due time, or when it was over.
    Exists(State, UnixMillis),
    /// Another message has this id. Nothing was changed.
    Conflict(Option<State>, UnixMillis),
    /// It was to replace one that is leased. Nothing was changed.
    Leased,
    /// A repeat that came so late that its topic may have forgotten how the first try ended. Nothing was changed.
    Stale,
    /// It is in the spool on this host's disk, and will be put when Redis can be reached.
    Spooled,
    /// The script refused it, for this reason. Nothing was changed.
    Refused(String),
}

// === impl PutOutcome ===

impl PutOutcome {
    /// Whether the message is accepted: kept by delayq, by this put or an earlier one.
    pub const fn is_accepted(&self) -> bool {
        matches!(self, Self::Stored(_) | Self::Ready(_) | Self::Exists(..) | Self::Spooled)
    }
}

// === impl Client ===

impl Client {
    /// Puts messages of one topic into one shard, in one call: at most 500 messages and 4 MiB. Every message has
    /// its id, and belongs into this shard. One outcome each.
    pub(crate) async fn put_call(
        &self,
        shard: ShardId,
        topic: &Topic,
        messages: &[&Message],
    ) -> Result<Vec<PutOutcome>, Error> {
        let call = self.put_request(shard, topic, messages);
        let reply = self.send(call).await?;
        read(reply, messages)
    }

    pub(crate) fn put_request(
        &self,
        shard: ShardId,
        topic: &Topic,
        messages: &[&Message],
    ) -> crate::link::Call {
        let mut call = self.call(Verb::Put, shard).arg(topic.as_str());
        for message in messages {
            let id = message.id.as_ref().expect("a message has its id before it is put");
            call.push(id.as_bytes());
            call.push(message.due.argument());
            call.push(options(message));
            call.push(self.stored(message).encode());
        }
        call
    }
}

pub(crate) fn read(reply: redis::Value, messages: &[&Message]) -> Result<Vec<PutOutcome>, Error> {
    let mut reply = Reply::new(Verb::Put, reply)?;
    let now = UnixMicros(reply.number()?).millis();
    messages.iter().map(|message| outcome(message, now, &mut reply)).collect()
}

fn options(message: &Message) -> String {
    let mut options = String::new();
    if message.replace {
        options.push_str("replace");
    }
    if let Some(tried) = message.tried {
        options.push_str(&format!(" tried={tried}"));
    }
    options
}

fn outcome(message: &Message, now: UnixMillis, reply: &mut Reply) -> Result<PutOutcome, Error> {
    let due = match message.due {
        Due::At(due) => due,
        Due::After(delay) => now + delay,
    };
    let text = reply.text()?;
    let mut words = Words::new(&text);
    Ok(match words.word() {
        "stored" => PutOutcome::Stored(due),
        "ready" => PutOutcome::Ready(due),
        "leased" => PutOutcome::Leased,
        "stale" => PutOutcome::Stale,
        "refused" => PutOutcome::Refused(words.rest().to_owned()),
        word @ ("exists" | "conflict") => {
            let state = State::from_word(words.word());
            let time = UnixMillis::new(words.number().unwrap_or(0));
            match (word, state) {
                ("exists", Some(state)) => PutOutcome::Exists(state, time),
                _ => PutOutcome::Conflict(state, time),
            }
        }
        _ => return Err(reply.nonsense(&text)),
    })
}

/// The shard of a message, which is given an id there if it has none; in `fallback` where nothing else says the shard.
pub(crate) fn place(
    client: &Client,
    message: &mut Message,
    fallback: ShardId,
    now: UnixMillis,
) -> Result<ShardId, MessageError> {
    let group = message.group.as_ref().map(|group| client.shards().shard_of_name(group.as_str()));
    match (&message.id, group) {
        (Some(id @ MessageId::Generated(_)), Some(group)) => match client.shard_of(id, None) {
            id if id != group => Err(MessageError::IdOutsideGroup { id, group }),
            shard => Ok(shard),
        },
        (Some(id), _) => Ok(client.shard_of(id, message.group.as_ref())),
        (None, group) => {
            let shard = group.unwrap_or(fallback);
            message.id = Some(MessageId::generate(shard, now.get()));
            Ok(shard)
        }
    }
}
