//! Plans a move from the records of the shards at each node. Pure.

use delayq_core::id::NodeName;
use delayq_core::layout::RecordedPlace;
use delayq_core::shard::ShardId;
use std::collections::{BTreeMap, BTreeSet};

/// The records of shards, at each node that has a shard or a copy.
#[derive(Debug, Default)]
pub(super) struct Records(BTreeMap<NodeName, BTreeMap<ShardId, RecordedPlace>>);

/// The steps of a move.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Planned {
    /// The old node of the shards; `None`: all shards are at the new node.
    pub(super) from: Option<NodeName>,
    /// The shards that the new node does not serve.
    pub(super) left: BTreeSet<ShardId>,
    /// The shards of `left` that are to be fenced.
    pub(super) to_fence: BTreeSet<ShardId>,
}

// === impl Records ===

impl Records {
    pub(super) fn add(&mut self, node: NodeName, records: BTreeMap<ShardId, RecordedPlace>) {
        self.0.insert(node, records);
    }

    /// Returns the nodes at which a shard is recorded as present.
    pub(super) fn keepers(&self, shard: ShardId) -> Vec<&NodeName> {
        let keeps =
            |node: &NodeName, place: &RecordedPlace| matches!(place, RecordedPlace::Here(at) if at == node);
        let nodes = self
            .0
            .iter()
            .filter(|(node, records)| records.get(&shard).is_some_and(|place| keeps(node, place)));
        nodes.map(|(node, _)| node).collect()
    }

    /// Returns the other node that has a fence for a move of the shard to this node.
    fn fenced(&self, shard: ShardId, to: &NodeName) -> Option<&NodeName> {
        let is_fence = |place: &RecordedPlace| matches!(place, RecordedPlace::Moved(at, Some(_)) if at == to);
        let mut nodes =
            self.0.iter().filter(|(node, records)| *node != to && records.get(&shard).is_some_and(is_fence));
        nodes.next().map(|(node, _)| node)
    }

    fn is_unnamed(&self, shard: ShardId) -> bool {
        self.0.values().any(|records| records.get(&shard) == Some(&RecordedPlace::Unnamed))
    }
}

impl<'r> IntoIterator for &'r Records {
    type Item = (&'r NodeName, &'r BTreeMap<ShardId, RecordedPlace>);
    type IntoIter = std::collections::btree_map::Iter<'r, NodeName, BTreeMap<ShardId, RecordedPlace>>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

/// Plans a move of shards to a node, or returns the reason for a refusal.
pub(super) fn plan(records: &Records, shards: &BTreeSet<ShardId>, to: &NodeName) -> Result<Planned, String> {
    let mut planned = Planned { from: None, left: BTreeSet::new(), to_fence: BTreeSet::new() };
    for &shard in shards {
        if records.is_unnamed(shard) {
            return Err(format!("shard {shard} records no node yet: run delayq shards name first"));
        }
        let from = match (&records.keepers(shard)[..], records.fenced(shard, to)) {
            ([at], _) if *at == to => continue,
            ([at], _) => {
                planned.to_fence.insert(shard);
                *at
            }
            ([], Some(at)) => at,
            ([], None) => return Err(format!("shard {shard} is on no node of [[redis.nodes]]")),
            ([one, other, ..], _) => {
                return Err(format!(
                    "shard {shard} is recorded on node {one} and on node {other}: one of the two lost its \
                     last writes; compare both, and stop that one"
                ));
            }
        };
        planned.left.insert(shard);
        match &planned.from {
            Some(other) if other != from => {
                return Err(format!(
                    "the shards are on nodes {other} and {from}: move the shards of one node at a time"
                ));
            }
            _ => planned.from = Some(from.clone()),
        }
    }
    Ok(planned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(nodes: &[(&str, &[&str])]) -> Records {
        let mut records = Records::default();
        for (node, words) in nodes {
            let place =
                |word: &str| format!("1{word}").parse::<delayq_core::layout::LayoutWord>().unwrap().place;
            let is_there = |(_, word): &(u16, &&str)| **word != "-";
            let shards =
                (0..).zip(*words).filter(is_there).map(|(shard, word)| (ShardId::new(shard), place(word)));
            records.add(node.parse().unwrap(), shards.collect());
        }
        records
    }

    #[test]
    fn a_move_begins_or_is_finished_or_is_refused_with_the_reason() {
        let shards: BTreeSet<ShardId> = [0, 1].map(ShardId::new).into();
        for (nodes, expected) in [
            (&[("a", &["@a", "@a"][..]), ("b", &["@a", "@a"])][..], Ok((Some("a"), vec![0, 1], vec![0, 1]))),
            (&[("a", &["@a", "@a"]), ("b", &["-", "-"])], Ok((Some("a"), vec![0, 1], vec![0, 1]))),
            (&[("a", &[">b:1", "@a"]), ("b", &["@a", "@a"])], Ok((Some("a"), vec![0, 1], vec![1]))),
            (&[("a", &[">b:1", ">b:1"]), ("b", &[">b:1", ">b:1"])], Ok((Some("a"), vec![0, 1], vec![]))),
            (&[("a", &[">b:1", ">b:1"]), ("b", &["@b", ">b:1"])], Ok((Some("a"), vec![1], vec![]))),
            (&[("a", &[">b:1", ">b:1"]), ("b", &["@b", "@b"])], Ok((None, vec![], vec![]))),
            (&[("a", &["@a", "@a"]), ("b", &["@b", "@b"])], Err("recorded on node a and on node b")),
            (&[("a", &["@a", ">c"]), ("c", &["-", "@c"]), ("b", &["-", "-"])], Err("nodes a and c")),
            (&[("a", &["", ""]), ("b", &["", ""])], Err("run delayq shards name first")),
            (&[("a", &["-", "-"]), ("b", &["-", "-"])], Err("shard 0 is on no node")),
        ] {
            let planned = plan(&of(nodes), &shards, &"b".parse().unwrap());
            match (planned, expected) {
                (Ok(Planned { from, left, to_fence }), Ok(expected)) => {
                    let numbers = |shards: BTreeSet<ShardId>| shards.into_iter().map(ShardId::get).collect();
                    let from = from.as_ref().map(NodeName::as_str);
                    assert_eq!((from, numbers(left), numbers(to_fence)), expected, "{nodes:?}");
                }
                (Err(why), Err(expected)) => assert!(why.contains(expected), "{why}"),
                (planned, expected) => panic!("{nodes:?}: {planned:?}, not {expected:?}"),
            }
        }
    }
}
