//! The names of messages, topics, groups and namespaces, and their rules.

use crate::odd;
use crate::rising::Rising;
use crate::shard::ShardId;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};
use uuid::Uuid;

/// The id of a message within its topic and, for an own id, its group: an own id may be used once in each group, and
/// once without a group.
///
/// As text (in the CLI, in logs) a generated id is `~` and a UUID; an own id stands for itself, with a second `~` in
/// front if it begins with `~`. So an own id that looks like a UUID stays an own id. An odd id is `~odd-` and its
/// bytes, most of them as `%41`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MessageId {
    /// Made by the client: a UUIDv7 with its shard in the 12 bits after the version.
    Generated(Uuid),
    /// Chosen by the producer.
    Own(OwnId),
    /// Outside the rules: another program stored the id. Can be shown, cancelled and purged; no put accepts it.
    Odd(Box<[u8]>),
}

/// Of the last generated id of this process.
static LAST: Mutex<Rising> = Mutex::new(Rising::new());

/// The rules of one kind of name.
#[derive(Clone, Copy, Debug)]
pub struct NameForm {
    /// The kind.
    pub what: &'static str,
    /// The characters allowed.
    pub characters: Characters,
    /// Maximum length, in bytes.
    pub max_bytes: usize,
}

/// The characters allowed in a kind of name.
#[derive(Clone, Copy, Debug)]
pub enum Characters {
    /// Any but control characters.
    Printable,
    /// ASCII, from ! to ~.
    Visible,
    /// ASCII letters, digits and these.
    Letters(&'static str),
}

/// The name of a header.
pub const HEADER_NAME: NameForm =
    NameForm { what: "header name", characters: Characters::Visible, max_bytes: 255 };

/// The token under which a repeated change of a group continues.
pub const TOKEN: NameForm = NameForm { what: "token", characters: Characters::Printable, max_bytes: 128 };

/// Every kind of name.
pub const NAMES: [NameForm; 7] =
    [OwnId::FORM, Topic::FORM, Group::FORM, Namespace::FORM, NodeName::FORM, HEADER_NAME, TOKEN];

/// The text of a generated id: the shard is in the 12 bits after the version.
pub const GENERATED_ID: &str = "~[01][0-9a-f]{7}-[0-9a-f]{4}-7[0-9a-f]{3}(-[0-9a-f]{4}){2}[0-9a-f]{8}";

macro_rules! name {
    ($(#[$doc:meta])* $type:ident, $what:literal, $most:literal, $characters:expr) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $type(String);

        impl $type {
            /// Maximum length, in bytes.
            pub const MAX_BYTES: usize = $most;

            /// The rules.
            pub const FORM: NameForm = NameForm { what: $what, characters: $characters, max_bytes: $most };

            /// Checks a name.
            ///
            /// # Errors
            /// The first rule that the name breaks.
            pub fn new(text: impl Into<String>) -> Result<Self, NameError> {
                let text = text.into();
                Self::FORM.check(&text).map(|()| Self(text))
            }

            /// The name.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $type {
            type Error = NameError;

            fn try_from(text: String) -> Result<Self, NameError> {
                Self::new(text)
            }
        }

        impl From<$type> for String {
            fn from(name: $type) -> String {
                name.0
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

name!(
    /// An id chosen by the producer: printable text of 1 to 128 bytes.
    OwnId, "id", 128, Characters::Printable
);
name!(
    /// A topic: 1 to 128 ASCII letters, digits and `. _ - /`; `tenant/name` for tenants.
    ///
    /// A topic in Redis may be outside the rules, because another program stored it: its text is then `~odd-` and its
    /// bytes, most of them as `%41`. Such a topic can be shown, purged and deleted; no put creates it.
    Topic, "topic", 128, Characters::Letters("._-/")
);
name!(
    /// A group: the producer's own key, such as a user; printable text of 1 to 128 bytes.
    Group, "group", 128, Characters::Printable
);
name!(
    /// A namespace, the prefix of a deployment's keys: 1 to 32 ASCII letters, digits, `_` and `-`. Default `dq`.
    Namespace, "namespace", 32, Characters::Letters("_-")
);
name!(
    /// The name of one of a deployment's several Redises: 1 to 32 ASCII letters, digits, `_` and `-`.
    NodeName, "node", 32, Characters::Letters("_-")
);

macro_rules! read_from_text {
    ($($type:ident),+) => {
        $(impl FromStr for $type {
            type Err = NameError;

            fn from_str(text: &str) -> Result<Self, NameError> {
                Self::new(text)
            }
        })+
    };
}

read_from_text!(OwnId, Group, Namespace, NodeName);

/// An invalid name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} {text:?}: {fault}")]
pub struct NameError {
    what: &'static str,
    text: String,
    fault: NameFault,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum NameFault {
    #[error("it is empty")]
    Empty,
    #[error("it has {0} bytes; at most {1} are allowed")]
    TooLong(usize, usize),
    #[error("the control character {0:?} is not allowed")]
    Control(char),
    #[error("only visible ASCII characters are allowed, not {0:?}")]
    Invisible(char),
    #[error("only ASCII letters, digits and {others} are allowed, not {0:?}", others = quoted(.1))]
    Character(char, &'static str),
    #[error("a generated id is ~ and a UUID of version 7")]
    NotGenerated,
}

fn shown(text: &str) -> String {
    text.chars().take(40).collect()
}

fn quoted(characters: &str) -> String {
    let quoted: Vec<String> = characters.chars().map(|c| format!("'{c}'")).collect();
    quoted.join(", ")
}

// === impl NameForm ===

impl NameForm {
    /// Checks a name.
    ///
    /// # Errors
    /// The first rule that the name breaks.
    pub fn check(&self, text: &str) -> Result<(), NameError> {
        let fault = match text.len() {
            0 => NameFault::Empty,
            n if n > self.max_bytes => NameFault::TooLong(n, self.max_bytes),
            _ => match text.chars().find(|&c| !self.characters.allow(c)) {
                Some(c) => self.characters.fault(c),
                None => return Ok(()),
            },
        };
        Err(NameError { what: self.what, text: shown(text), fault })
    }
}

// === impl Characters ===

impl Characters {
    /// True if the character is allowed.
    pub fn allow(self, c: char) -> bool {
        match self {
            Self::Printable => !c.is_control(),
            Self::Visible => c.is_ascii_graphic(),
            Self::Letters(others) => c.is_ascii_alphanumeric() || others.contains(c),
        }
    }

    const fn fault(self, c: char) -> NameFault {
        match self {
            Self::Printable => NameFault::Control(c),
            Self::Visible => NameFault::Invisible(c),
            Self::Letters(others) => NameFault::Character(c, others),
        }
    }
}

impl Default for Namespace {
    fn default() -> Self {
        Self("dq".to_owned())
    }
}

// === impl Topic ===

impl Topic {
    /// The topic with this name in Redis, inside the rules or not.
    pub fn from_stored(name: &[u8]) -> Self {
        let text = std::str::from_utf8(name).ok();
        text.and_then(|text| Self::new(text).ok()).unwrap_or_else(|| Self(odd::text_of(name)))
    }

    /// True if the name is outside the rules.
    pub fn is_odd(&self) -> bool {
        self.0.starts_with('~')
    }

    /// The name in keys and script calls.
    pub fn as_bytes(&self) -> Cow<'_, [u8]> {
        match odd::bytes_of(&self.0) {
            Some(bytes) => Cow::Owned(bytes),
            None => Cow::Borrowed(self.0.as_bytes()),
        }
    }
}

impl FromStr for Topic {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        odd::bytes_of(text).map_or_else(|| Self::new(text), |name| Ok(Self::from_stored(&name)))
    }
}

// === impl MessageId ===

impl MessageId {
    /// An own id.
    ///
    /// # Errors
    /// The id is empty, longer than 128 bytes, or contains control characters.
    pub fn own(text: impl Into<String>) -> Result<Self, NameError> {
        OwnId::new(text).map(Self::Own)
    }

    /// A new id in `shard` with the given time (ms since the epoch), which only orders ids: each that a process makes is behind
    /// the one before, unless its clock was set back.
    pub fn generate(shard: ShardId, unix_ms: u64) -> Self {
        let [high, low] = shard.get().to_be_bytes();
        let mut tail = [0_u8; 10];
        tail[0] = high & 0x0f;
        tail[1] = low;
        let (unix_ms, number) = LAST.lock().unwrap_or_else(PoisonError::into_inner).next(unix_ms);
        tail[2..].copy_from_slice(&number.to_be_bytes());
        // Bits 42..48 of the time stay zero, so that the first byte distinguishes a generated id from text.
        Self::Generated(
            uuid::Builder::from_unix_timestamp_millis(unix_ms & ((1 << 45) - 1), &tail).into_uuid(),
        )
    }

    /// The shard that a generated id carries.
    pub fn shard(&self) -> Option<ShardId> {
        match self {
            Self::Own(_) | Self::Odd(_) => None,
            Self::Generated(uuid) => {
                let bytes = uuid.as_bytes();
                Some(ShardId::new(u16::from_be_bytes([bytes[6] & 0x0f, bytes[7]])))
            }
        }
    }

    /// The same generated id with another shard, so that a message keeps its id as far as possible when it moves to a
    /// deployment with other shards. An own id has no shard, and stays unchanged.
    #[must_use]
    pub fn with_shard(&self, shard: ShardId) -> Self {
        match self {
            Self::Own(_) | Self::Odd(_) => self.clone(),
            Self::Generated(uuid) => {
                let [high, low] = shard.get().to_be_bytes();
                let mut bytes = *uuid.as_bytes();
                bytes[6] = bytes[6] & 0xf0 | high & 0x0f;
                bytes[7] = low;
                Self::Generated(Uuid::from_bytes(bytes))
            }
        }
    }

    /// The 16 raw bytes, or the text. Keys and scripts also name the group: [`crate::target::stored_id`].
    pub fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Generated(uuid) => uuid.as_bytes(),
            Self::Own(id) => id.0.as_bytes(),
            Self::Odd(bytes) => bytes,
        }
    }

    /// Reads an id without a group; `None` if the bytes have neither form.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        if bytes.len() == 16 && bytes[0] < 0x20 {
            return Uuid::from_slice(bytes).ok().map(Self::Generated);
        }
        std::str::from_utf8(bytes).ok().and_then(|text| Self::own(text).ok())
    }

    /// The id with these bytes in Redis, inside the rules or not.
    pub fn from_stored(bytes: &[u8]) -> Self {
        Self::from_bytes(bytes).unwrap_or_else(|| Self::Odd(bytes.into()))
    }

    /// True if the id is outside the rules.
    pub const fn is_odd(&self) -> bool {
        matches!(self, Self::Odd(_))
    }
}

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Generated(uuid) => write!(f, "~{uuid}"),
            Self::Own(OwnId(text)) if text.starts_with('~') => write!(f, "~{text}"),
            Self::Own(OwnId(text)) => f.write_str(text),
            Self::Odd(bytes) => f.write_str(&odd::text_of(bytes)),
        }
    }
}

impl FromStr for MessageId {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        if let Some(bytes) = odd::bytes_of(text) {
            return Ok(Self::from_stored(&bytes));
        }
        match text.strip_prefix('~') {
            None => Self::own(text),
            Some(own) if own.starts_with('~') => Self::own(own),
            Some(uuid) => match Uuid::try_parse(uuid) {
                Ok(uuid) if uuid.get_version_num() == 7 && uuid.as_bytes()[0] < 0x20 => {
                    Ok(Self::Generated(uuid))
                }
                _ => Err(NameError { what: "id", text: shown(text), fault: NameFault::NotGenerated }),
            },
        }
    }
}

impl From<OwnId> for MessageId {
    fn from(id: OwnId) -> Self {
        Self::Own(id)
    }
}

impl Serialize for MessageId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for MessageId {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_generated_id_takes_another_shard_and_nothing_else_changes() {
        let id = MessageId::generate(ShardId::new(4095), 1_763_697_600_123);
        let moved = id.with_shard(ShardId::new(258));
        assert_eq!(moved.shard(), Some(ShardId::new(258)));
        assert_eq!(moved.to_string().parse::<MessageId>().as_ref(), Ok(&moved), "it is still of version 7");
        assert_eq!(moved.with_shard(ShardId::new(4095)), id);
        let own = MessageId::own("order-17").unwrap();
        assert_eq!(own.with_shard(ShardId::new(3)), own);
    }

    #[test]
    fn a_generated_id_carries_its_shard_and_survives_every_form() {
        for shard in [0, 1, 255, 256, 4095] {
            let id = MessageId::generate(ShardId::new(shard), 1_763_697_600_123);
            assert_eq!(id.shard(), Some(ShardId::new(shard)));
            assert_eq!(id.to_string().parse::<MessageId>().unwrap(), id);
            assert_eq!(MessageId::from_bytes(id.as_bytes()), Some(id));
        }
    }

    #[test]
    fn an_own_id_is_never_read_as_a_generated_one() {
        let uuid = "019a9f2c-7b00-7001-8000-000000000001";
        for text in [uuid, "~x", "~~", "0123456789abcdef", "a:b/c{}"] {
            let id = MessageId::own(text).unwrap();
            assert_eq!(id.to_string().parse::<MessageId>().unwrap(), id, "{text}");
            assert_eq!(MessageId::from_bytes(id.as_bytes()), Some(id), "{text}");
        }
    }

    #[test]
    fn what_breaks_the_rules_has_a_text_that_names_it_again() {
        for bytes in [&b""[..], b"a\nb", b"\xff", &[b'a'; 129]] {
            let (id, topic) = (MessageId::from_stored(bytes), Topic::from_stored(bytes));
            assert!(id.is_odd() && topic.is_odd(), "{id} {topic}");
            assert_eq!((id.as_bytes(), &*topic.as_bytes()), (bytes, bytes));
            assert_eq!(id.to_string().parse(), Ok(id.clone()));
            assert_eq!(topic.to_string().parse(), Ok(topic));
        }
        assert_eq!("~odd-order-17".parse(), Ok(MessageId::own("order-17").unwrap()), "one name has one text");
        assert_eq!("~odd-orders".parse(), Ok(Topic::new("orders").unwrap()));
        assert!(Topic::new("~odd-my%20orders").is_err(), "a put does not take it");
    }

    #[test]
    fn a_bad_name_is_refused_with_what_is_wrong() {
        let cases = [
            (OwnId::new("").map(drop), "id \"\": it is empty"),
            (OwnId::new("a\0b").map(drop), "id \"a\\0b\": the control character '\\0' is not allowed"),
            (
                Topic::new("a b").map(drop),
                "topic \"a b\": only ASCII letters, digits and '.', '_', '-', '/' are allowed, not ' '",
            ),
            (
                Namespace::new("a{b").map(drop),
                "namespace \"a{b\": only ASCII letters, digits and '_', '-' are allowed, not '{'",
            ),
        ];
        for (result, text) in cases {
            assert_eq!(result.unwrap_err().to_string(), text);
        }
        assert!(OwnId::new("é".repeat(64)).is_ok());
        assert!(
            OwnId::new("é".repeat(65))
                .unwrap_err()
                .to_string()
                .ends_with("it has 130 bytes; at most 128 are allowed")
        );
    }
}
