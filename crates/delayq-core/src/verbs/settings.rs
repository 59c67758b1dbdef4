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

/// Asks for the settings that differ from the defaults.
pub fn describe(shard: ShardId, topic: &Topic) -> Call {
    Call::new(Verb::Describe, shard).arg(topic.as_bytes())
}

/// Reads the settings that differ from the defaults, except settings of a later version.
pub fn read(reply: Value) -> Result<TopicSettings, ReplyError> {
    let mut reply = Reply::new(Verb::Describe, reply)?;
    let mut settings = Vec::new();
    while !reply.is_empty() {
        let (field, value) = (reply.text()?, reply.bytes()?);
        settings.extend(known_field(&field).map(|known| (known, value)));
    }
    Ok(settings)
}
