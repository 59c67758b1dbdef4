//! The members of a group that a change of it concerns.

use crate::id::{Group, Topic};
use std::fmt;

/// The pending messages of a group, of all topics or of one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Members {
    /// The group.
    pub group: Group,
    /// The only topic concerned; `None`: all topics.
    pub topic: Option<Topic>,
}

// === impl Members ===

impl Members {
    /// The messages of one topic.
    pub fn of_topic(group: Group, topic: Topic) -> Self {
        Self { group, topic: Some(topic) }
    }

    pub(crate) fn topic_word(&self) -> Vec<u8> {
        self.topic.as_ref().map_or_else(Vec::new, |topic| topic.as_bytes().into_owned())
    }
}

impl From<Group> for Members {
    fn from(group: Group) -> Self {
        Self { group, topic: None }
    }
}

impl From<&Group> for Members {
    fn from(group: &Group) -> Self {
        Self::from(group.clone())
    }
}

impl From<&Members> for Members {
    fn from(members: &Members) -> Self {
        members.clone()
    }
}

/// `group user-5`, or `group user-5 in topic orders`.
impl fmt::Display for Members {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "group {}", self.group)?;
        self.topic.iter().try_for_each(|topic| write!(f, " in topic {topic}"))
    }
}
