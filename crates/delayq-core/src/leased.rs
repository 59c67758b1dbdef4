//! A leased message, and the next message, which the ack puts.

use crate::id::{Group, MessageId, Topic};
use crate::message::{Due, Message, MessageError};
use crate::target::stored_id;
use crate::time::UnixMillis;
use crate::verbs::reserve::Receipt;

/// The properties of a leased message on which the next message depends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leased {
    /// Settles the message.
    pub receipt: Receipt,
    /// The topic.
    pub topic: Topic,
    /// The id.
    pub id: MessageId,
    /// The group.
    pub group: Option<Group>,
}

/// The put of a next message, which acks the leased message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NextPut {
    /// The receipt of the leased message.
    pub receipt: Receipt,
    /// The topic of the next message.
    pub topic: Topic,
    pub(crate) id: Vec<u8>,
    pub(crate) due: Due,
    pub(crate) envelope: Vec<u8>,
}

const ANOTHER_ID: &str = "has no id, or the id, the group and the topic of the message before it: put any other message, and \
                          then ack";
const ANOTHER_GROUP: &str =
    "has the group of the message before it, or none: put a message of another group, and then ack";
const OPTIONS: &str =
    "replaces only the message before it, and needs no time of a first try: the receipt recognises a repeat";

// === impl Leased ===

impl Leased {
    /// Returns the next message with an id. The next message is stored in the shard of the receipt, whatever the number of
    /// shards: a next message therefore has no id, or takes the place of the leased message.
    ///
    /// # Errors
    /// [`MessageError::Next`]: the message may belong to another shard, or has options that an ack does not take.
    pub fn next(&self, message: Message, now: UnixMillis) -> Result<Message, MessageError> {
        let Message { topic, id, group, replace, tried, record, .. } = &message;
        if *replace || tried.is_some() || record.is_some() {
            return Err(MessageError::Next(OPTIONS));
        }
        match id {
            Some(id) if (topic, id, group) == (&self.topic, &self.id, &self.group) => Ok(message),
            Some(_) => Err(MessageError::Next(ANOTHER_ID)),
            None if group.is_some() && *group != self.group => Err(MessageError::Next(ANOTHER_GROUP)),
            None => Ok(message.with_id(MessageId::generate(self.receipt.shard, now.get()))),
        }
    }

    /// Returns the put of a next message with an id; `envelope` is the stored form.
    pub fn put(&self, next: &Message, envelope: Vec<u8>) -> NextPut {
        let id = next.id.as_ref().expect("a next message has its id before it is put");
        let id = stored_id(id, next.group.as_ref()).into_owned();
        let (receipt, topic) = (self.receipt.clone(), next.topic.clone());
        NextPut { receipt, topic, id, due: next.due, envelope }
    }
}

// === impl NextPut ===

impl NextPut {
    /// Approximate bytes in a call.
    pub fn bytes(&self) -> usize {
        self.id.len() + self.envelope.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shard::ShardId;

    fn leased(group: Option<&str>) -> Leased {
        let receipt = Receipt::new(ShardId::new(3), b"1:a\0\0\0\0".to_vec());
        let group = group.map(|group| Group::new(group).unwrap());
        Leased { receipt, topic: topic("mails"), id: "a".parse().unwrap(), group }
    }

    fn topic(name: &str) -> Topic {
        Topic::new(name).unwrap()
    }

    fn refused(leased: &Leased, message: Message) -> &'static str {
        match leased.next(message, UnixMillis::new(1)) {
            Err(MessageError::Next(why)) => why,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_next_message_stays_in_the_shard_whatever_the_number_of_shards() {
        let mail = || Message::new(topic("mails"), "x");
        let bill = || Message::new(topic("bills"), "x");
        for (group, message) in
            [(None, mail()), (None, bill()), (Some("g"), mail()), (Some("g"), bill().group("g").unwrap())]
        {
            let next = leased(group).next(message, UnixMillis::new(1)).unwrap();
            assert_eq!(next.id.unwrap().shard(), Some(ShardId::new(3)));
        }
        let own = mail().id("a").unwrap();
        assert_eq!(leased(None).next(own.clone(), UnixMillis::new(1)), Ok(own.clone()));
        for other in [bill().id("a").unwrap(), mail().id("b").unwrap(), own.clone().group("g").unwrap()] {
            assert_eq!(refused(&leased(None), other), ANOTHER_ID);
        }
        assert_eq!(refused(&leased(Some("g")), own.clone()), ANOTHER_ID);
        assert_eq!(refused(&leased(Some("h")), mail().group("g").unwrap()), ANOTHER_GROUP);
        assert_eq!(refused(&leased(None), mail().group("g").unwrap()), ANOTHER_GROUP);
        for option in [own.clone().replace(), own.first_tried(UnixMillis::new(1))] {
            assert_eq!(refused(&leased(None), option), OPTIONS);
        }
    }
}
