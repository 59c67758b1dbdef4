//! Ids of messages, and their envelopes.

use crate::server::{Server, envelope};
use delayq::protocol::{ContentHash, Envelope};
use delayq::{Group, MessageId, Target};

/// The source of ids: the client, the producer, or the producer with a separate group per message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Ids {
    Generated,
    Own,
    Grouped,
}

pub(crate) const KINDS: [Ids; 3] = [Ids::Generated, Ids::Own, Ids::Grouped];

// === impl Ids ===

impl Ids {
    /// As two columns of a table.
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
            Self::Own => Target::from(own(server.number())).stored().into_owned(),
            Self::Grouped => {
                let number = server.number();
                Target::in_group(own(number), group(number)).stored().into_owned()
            }
        }
    }

    /// As a producer encodes the envelope.
    pub(crate) fn envelope(self, id: &[u8]) -> Vec<u8> {
        let own = self != Self::Generated;
        let group = Target::from_stored(id).group;
        Envelope {
            hash: own.then(|| ContentHash(std::array::from_fn(|at| id[at % id.len()]))),
            group,
            ..envelope()
        }
        .encode()
    }
}

pub(crate) fn own(number: u64) -> MessageId {
    MessageId::own(format!("order-{number}")).expect("a plain name is an id")
}

fn group(number: u64) -> Group {
    Group::new(format!("user-{number}")).expect("a plain name is a group's")
}
