//! What names a message, and its envelope.

use crate::server::{Server, envelope};
use delayq::Group;
use delayq::protocol::Envelope;

/// What names a message: the client, its producer, or its producer who also gives each a group of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Ids {
    Generated,
    Own,
    Grouped,
}

pub(crate) const KINDS: [Ids; 3] = [Ids::Generated, Ids::Own, Ids::Grouped];

// === impl Ids ===

impl Ids {
    /// The kind of id and the groups, as two columns of a table.
    pub(crate) fn columns(self) -> &'static str {
        match self {
            Self::Generated => "generated | none",
            Self::Own => "own | none",
            Self::Grouped => "own | one each",
        }
    }

    pub(crate) fn id(self, server: &mut Server) -> Vec<u8> {
        match self {
            Self::Generated => server.id(),
            Self::Own | Self::Grouped => format!("order-{}", server.number()).into_bytes(),
        }
    }

    /// The envelope of the message with this id, as a producer makes it.
    pub(crate) fn envelope(self, id: &[u8]) -> Vec<u8> {
        let own = self != Self::Generated;
        let group = (self == Self::Grouped).then(|| {
            Group::new(format!("user-{}", String::from_utf8_lossy(id))).expect("a plain name is a group's")
        });
        Envelope { hash: own.then(|| std::array::from_fn(|at| id[at % id.len()])), group, ..envelope() }
            .encode()
    }
}
