//! The identity of a message in later calls.
//!
//! ```text
//! stored id:  16 bytes of a UUIDv7          a generated id, whatever the group
//!             id                            an own id without a group
//!             id ‖ 0x1F ‖ group             an own id in a group
//! ```
//! Ids and groups have no control characters, so the first 0x1F ends the id, and an own id never looks like a generated
//! id.

use crate::id::{Group, MessageId};
use crate::shard::ShardId;
use std::borrow::Cow;

/// Separates an own id from its group in keys and calls.
const SEPARATOR: u8 = 0x1f;

/// The place of a put message, which identifies it in later calls.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Reference {
    /// The shard of the message.
    pub shard: ShardId,
    /// The id.
    pub id: MessageId,
    /// The group.
    pub group: Option<Group>,
}

/// A message by id, and by group if it has a group and an own id.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Target {
    /// The id.
    pub id: MessageId,
    /// The group. An own id names a different message in each group, and without a group; a generated id names one
    /// message, whatever group is given.
    pub group: Option<Group>,
}

// === impl Target ===

impl From<MessageId> for Target {
    fn from(id: MessageId) -> Self {
        Self { id, group: None }
    }
}

impl From<Reference> for Target {
    fn from(Reference { shard: _, id, group }: Reference) -> Self {
        Self { id, group }
    }
}

impl Target {
    /// The message with this id in this group.
    pub fn in_group(id: MessageId, group: Group) -> Self {
        Self { id, group: Some(group) }
    }

    /// The stored id: the name of the message in keys and calls.
    pub fn stored(&self) -> Cow<'_, [u8]> {
        stored_id(&self.id, self.group.as_ref())
    }

    /// Reads a stored id. The stored id of a generated id names no group; a name outside the rules is an odd id.
    pub fn from_stored(bytes: &[u8]) -> Self {
        let id = MessageId::from_stored(bytes);
        if let MessageId::Generated(_) = id {
            return id.into();
        }
        Self::own_in_group(bytes).unwrap_or_else(|| id.into())
    }

    fn own_in_group(bytes: &[u8]) -> Option<Self> {
        let at = bytes.iter().position(|&byte| byte == SEPARATOR)?;
        let (id, group) =
            (std::str::from_utf8(&bytes[..at]).ok()?, std::str::from_utf8(&bytes[at + 1..]).ok()?);
        Some(Self::in_group(MessageId::own(id).ok()?, Group::new(group).ok()?))
    }
}

/// The name of a message in keys and calls.
pub fn stored_id<'i>(id: &'i MessageId, group: Option<&Group>) -> Cow<'i, [u8]> {
    match (id, group) {
        (MessageId::Own(_), Some(group)) => {
            [id.as_bytes(), &[SEPARATOR], group.as_str().as_bytes()].concat().into()
        }
        _ => id.as_bytes().into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own(id: &str, group: Option<&str>) -> Target {
        Target { id: MessageId::own(id).unwrap(), group: group.map(|group| Group::new(group).unwrap()) }
    }

    #[test]
    fn an_own_id_is_another_name_in_each_group_and_is_read_back() {
        let all = [
            own("a", None),
            own("a", Some("g")),
            own("a", Some("ag")),
            own("aa", Some("g")),
            own("ag", None),
        ];
        for (i, target) in all.iter().enumerate() {
            assert_eq!(&Target::from_stored(&target.stored()), target);
            assert!(all[..i].iter().all(|other| other.stored() != target.stored()), "{target:?}");
        }
        let longest = own(&"i".repeat(128), Some(&"g".repeat(128)));
        assert_eq!(Target::from_stored(&longest.stored()), longest);
    }

    #[test]
    fn an_own_id_in_a_group_is_never_read_as_a_generated_one() {
        let target = own("fifteen", Some("bytes-8"));
        assert_eq!(target.stored().len(), 15);
        let target = own("fifteen", Some("bytes-of"));
        assert_eq!(target.stored().len(), 16);
        assert_eq!(Target::from_stored(&target.stored()), target);
    }

    #[test]
    fn a_generated_id_is_one_name_whatever_the_group() {
        // The bytes may have any value, including the separator.
        let mut bytes = [0x1f; 16];
        bytes[6] = 0x70;
        let id = MessageId::from_bytes(&bytes).unwrap();
        let grouped = Target::in_group(id.clone(), Group::new("g").unwrap());
        assert_eq!(grouped.stored(), Target::from(id.clone()).stored());
        assert_eq!(Target::from_stored(&bytes), id.into());
    }

    #[test]
    fn a_stored_id_outside_the_rules_is_an_odd_one_and_keeps_its_bytes() {
        for bytes in [&b""[..], b"\x1f", b"\x1fg", b"a\x1f", b"a\x1fg\x1fh", b"a\x1f\xff", b"a\nb"] {
            let target = Target::from_stored(bytes);
            assert!(matches!(target.id, MessageId::Odd(_)), "{}", bytes.escape_ascii());
            assert_eq!(&*target.stored(), bytes);
        }
    }
}
