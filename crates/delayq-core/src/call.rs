//! A script call as data, ready for any connection.

use crate::durability::Waits;
use crate::script::Verb;
use crate::shard::ShardId;
use std::io::Write;

/// A script call: script, shard, and arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The script.
    pub verb: Verb,
    /// The shard.
    pub shard: ShardId,
    /// The layout that the caller assumes; `None`: the layout known when the call is sent.
    pub layout: Option<u32>,
    /// The durability to wait for before answering.
    pub waits: Waits,
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

// === impl Call ===

impl Call {
    /// A call without arguments.
    pub const fn new(verb: Verb, shard: ShardId) -> Self {
        Self { verb, shard, layout: None, waits: Waits::NOTHING, bytes: Vec::new(), ends: Vec::new() }
    }

    /// Sets the layout that the caller assumes.
    #[must_use]
    pub const fn under(mut self, layout: u32) -> Self {
        self.layout = Some(layout);
        self
    }

    /// The topic that the call writes to on behalf of a producer; `None` for other calls, and for calls on a group.
    pub fn written_topic(&self) -> Option<&[u8]> {
        match self.verb {
            Verb::Put | Verb::Cancel | Verb::Finish | Verb::Operate | Verb::Reschedule => {
                self.arguments().next()
            }
            _ => None,
        }
    }

    /// The arguments after the layout, in order.
    pub fn arguments(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, &end)| &self.bytes[start..end])
    }

    /// The bytes of all arguments.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Adds an argument.
    #[must_use]
    pub fn arg(mut self, arg: impl AsRef<[u8]>) -> Self {
        self.push(arg);
        self
    }

    /// Adds a number as an argument.
    #[must_use]
    pub fn number(mut self, number: impl Into<u64>) -> Self {
        self.push_number(number);
        self
    }

    /// Adds an argument.
    pub fn push(&mut self, arg: impl AsRef<[u8]>) {
        self.bytes.extend_from_slice(arg.as_ref());
        self.ends.push(self.bytes.len());
    }

    /// Adds a number as an argument.
    pub fn push_number(&mut self, number: impl Into<u64>) {
        write!(self.bytes, "{}", number.into()).expect("a vector takes every byte");
        self.ends.push(self.bytes.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_come_out_as_they_went_in_empty_ones_included() {
        let call = Call::new(Verb::Put, ShardId::new(3)).arg("orders").arg("").number(17_u64).arg([0, 255]);
        let arguments: Vec<&[u8]> = call.arguments().collect();
        assert_eq!(arguments, [&b"orders"[..], b"", b"17", &[0, 255]]);
        assert_eq!(Call::new(Verb::Put, ShardId::new(3)).arguments().count(), 0);
    }
}
