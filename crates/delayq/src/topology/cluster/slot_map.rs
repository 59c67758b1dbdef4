//! The node of each slot. Pure.

use crate::link::Node;
use delayq_core::keys::SLOTS;
use redis::{Value, from_redis_value};
use std::fmt;

const NOBODY: u16 = u16::MAX;

#[derive(Clone, PartialEq, Eq)]
pub(crate) struct SlotMap {
    /// Sorted.
    masters: Vec<Node>,
    /// Indices into `masters`.
    slots: Vec<u16>,
}

// === impl SlotMap ===

impl SlotMap {
    /// The answer to CLUSTER SLOTS; a node without a host has the host of `asked`.
    pub(super) fn read(answer: Value, asked: &Node) -> Result<Self, String> {
        let ranges: Vec<Vec<Value>> = from_redis_value(answer).map_err(|error| error.to_string())?;
        let mut owned = Vec::new();
        for range in ranges {
            let [first, last, master, ..] = &range[..] else {
                return Err(format!("unexpected reply to CLUSTER SLOTS: {range:?}"));
            };
            let odd = |error| format!("unexpected reply to CLUSTER SLOTS: {error}");
            let (first, last): (u16, u16) =
                from_redis_value(Value::Array(vec![first.clone(), last.clone()])).map_err(odd)?;
            let master: Vec<Value> = from_redis_value(master.clone()).map_err(odd)?;
            let [host, port, ..] = &master[..] else { return Err("a node has no port".to_owned()) };
            let host: Option<String> = from_redis_value(host.clone()).map_err(odd)?;
            let host = match host.as_deref() {
                None | Some("") => asked.host(),
                // The node announces a hostname but has none.
                Some("?") => continue,
                Some(host) => host,
            };
            if first > last || last >= SLOTS {
                return Err(format!("unexpected reply to CLUSTER SLOTS: slots {first} to {last}"));
            }
            let port = from_redis_value(port.clone()).map_err(odd)?;
            owned.push((first..=last, Node::new(host, port)));
        }
        let mut masters: Vec<Node> = owned.iter().map(|(_, node)| node.clone()).collect();
        masters.sort_unstable();
        masters.dedup();
        let mut map = Self { masters, slots: vec![NOBODY; SLOTS.into()] };
        for (slots, node) in owned {
            let master = map.index(&node);
            slots.for_each(|slot| map.slots[usize::from(slot)] = master);
        }
        Ok(map)
    }

    pub(crate) fn node(&self, slot: u16) -> Option<&Node> {
        self.masters.get(usize::from(self.slots[usize::from(slot)]))
    }

    pub(crate) fn masters(&self) -> &[Node] {
        &self.masters
    }

    pub(super) fn with(&self, moved: &[&(u16, Node)]) -> Self {
        let mut masters = self.masters.clone();
        masters.extend(moved.iter().map(|(_, node)| node.clone()));
        masters.sort_unstable();
        masters.dedup();
        let mut map = Self { masters, slots: Vec::new() };
        let renumbered: Vec<u16> = self.masters.iter().map(|master| map.index(master)).collect();
        let of = |&master: &u16| renumbered.get(usize::from(master)).copied().unwrap_or(NOBODY);
        map.slots = self.slots.iter().map(of).collect();
        for (slot, node) in moved {
            map.slots[usize::from(*slot)] = map.index(node);
        }
        map
    }

    /// A slot without a node keeps the previous node: after a master becomes a replica, a node drops that
    /// master's slots before learning the new master. The former master redirects callers.
    pub(super) fn or(self, before: &Self) -> Self {
        let nobodys = (0..SLOTS).filter(|&slot| self.node(slot).is_none());
        let kept: Vec<(u16, Node)> =
            nobodys.filter_map(|slot| Some((slot, before.node(slot)?.clone()))).collect();
        if kept.is_empty() { self } else { self.with(&kept.iter().collect::<Vec<_>>()) }
    }

    fn index(&self, node: &Node) -> u16 {
        let at = self.masters.binary_search(node).expect("every node with a slot is among the masters");
        u16::try_from(at).expect("there are fewer masters than slots")
    }
}

impl fmt::Debug for SlotMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SlotMap").field("masters", &self.masters).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Value {
        Value::BulkString(text.as_bytes().to_vec())
    }

    fn range(first: i64, last: i64, host: Value, port: i64) -> Value {
        let master = Value::Array(vec![host, Value::Int(port), text("id"), Value::Array(Vec::new())]);
        let replica = Value::Array(vec![text("replica"), Value::Int(1), text("other")]);
        Value::Array(vec![Value::Int(first), Value::Int(last), master, replica])
    }

    fn asked() -> Node {
        Node::new("asked", 7000)
    }

    #[test]
    fn each_slot_is_its_master_s_and_replicas_are_no_nodes() {
        let ranges = vec![
            range(0, 99, text("b"), 7001),
            range(100, 200, text("a"), 7002),
            range(300, 16383, Value::Nil, 7003),
            range(250, 260, text("?"), 7004),
        ];
        let map = SlotMap::read(Value::Array(ranges), &asked()).unwrap();
        let of = |slot| map.node(slot).map(ToString::to_string).unwrap_or_default();
        assert_eq!([0, 99, 100, 200].map(of), ["b:7001", "b:7001", "a:7002", "a:7002"]);
        assert_eq!([201, 255, 299, 300, 16383].map(of), ["", "", "", "asked:7003", "asked:7003"]);
        assert_eq!(map.masters().len(), 3);
    }

    #[test]
    fn a_slot_that_moved_takes_no_other_with_it() {
        let ranges = vec![range(0, 9, text("b"), 1), range(10, 16383, text("d"), 1)];
        let map = SlotMap::read(Value::Array(ranges), &asked()).unwrap();
        for to in ["a", "b", "c", "e"] {
            let moved = map.with(&[&(10, Node::new(to, 1)), &(12, Node::new("b", 1))]);
            let of = |slot| moved.node(slot).unwrap().host().to_owned();
            assert_eq!([9, 10, 11, 12, 16383].map(of), ["b", to, "d", "b", "d"]);
        }
        assert_eq!(map.with(&[&(3, Node::new("b", 1))]), map);
    }

    #[test]
    fn a_slot_that_is_nobody_s_stays_whose_it_was() {
        let read = |ranges| SlotMap::read(Value::Array(ranges), &asked()).unwrap();
        let before = read(vec![range(0, 9, text("b"), 1), range(20, 29, text("d"), 1)]);
        let map = read(vec![range(5, 24, text("c"), 1)]).or(&before);
        let of = |slot| map.node(slot).map(|node| node.host().to_owned()).unwrap_or_default();
        assert_eq!([0, 4, 5, 15, 24, 25, 29, 30].map(of), ["b", "b", "c", "c", "c", "d", "d", ""]);
    }

    #[test]
    fn what_is_no_map_is_refused() {
        for answer in [
            Value::Array(vec![range(9, 3, text("a"), 1)]),
            Value::Array(vec![range(0, 16384, text("a"), 1)]),
            Value::Array(vec![Value::Array(vec![Value::Int(1), Value::Int(2)])]),
            Value::Array(vec![Value::Int(1)]),
            text("OK"),
        ] {
            assert!(SlotMap::read(answer.clone(), &asked()).is_err(), "{answer:?}");
        }
    }
}
