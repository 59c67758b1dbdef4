//! `configure`, `describe`: the settings of a topic in one shard.

use crate::call::Call;
use crate::id::Topic;
use crate::policy::{TopicSettings, known_field};
use crate::reply::{Reply, ReplyError, Value};
use crate::script::Verb;
use crate::shard::ShardId;

/// Sets these fields; an empty value restores the default.
pub fn configure(shard: ShardId, topic: &Topic, settings: &TopicSettings) -> Call {
    let mut call = Call::new(Verb::Configure, shard).arg(topic.as_bytes());
    for (field, value) in settings {
        call.push(field);
        call.push(value);
    }
    call
}

/// Asks for the settings that differ from the defaults, of at most 500 topics.
pub fn describe<'t>(shard: ShardId, topics: impl IntoIterator<Item = &'t Topic>) -> Call {
    let mut call = Call::new(Verb::Describe, shard);
    topics.into_iter().for_each(|topic| call.push(topic.as_bytes()));
    call
}

/// Reads for each topic the settings that differ from the defaults, except settings of a later version.
///
/// # Errors
/// The reply is malformed.
pub fn read(reply: Value) -> Result<Vec<TopicSettings>, ReplyError> {
    let mut reply = Reply::new(Verb::Describe, reply)?;
    let mut all = Vec::new();
    while !reply.is_empty() {
        let mut settings = Vec::new();
        for _ in 0..reply.number()? {
            let (field, value) = (reply.text()?, reply.bytes()?);
            settings.extend(known_field(&field).map(|known| (known, value)));
        }
        all.push(settings);
    }
    Ok(all)
}
