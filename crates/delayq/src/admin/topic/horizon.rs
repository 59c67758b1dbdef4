//! Counts pending messages by due time, with a bounded number of calls.

use super::TopicAdmin;
use crate::calls::{Batch, scatter};
use crate::error::Error;
use delayq_core::shard::ShardId;
use delayq_core::time::UnixMillis;
use delayq_core::verbs::histogram::{self, Slot};
use std::ops::Range;
use std::time::Duration;

const MINUTE_MS: u64 = 60_000;
const HOUR_MS: u64 = 3_600_000;

/// Maximum calls to each shard. A call counts 24 nonempty hours: 48 days of a topic with messages in every hour.
const MAX_CALLS: usize = 48;

/// Number of delayed messages that become due in each interval.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Horizon {
    /// The counts of the first intervals. Missing intervals were not counted, because too many calls would be needed.
    pub counts: Vec<u64>,
}

/// A count in progress.
struct Counting<'c> {
    edges: &'c [UnixMillis],
    counts: Vec<u64>,
    /// Remaining rounds of one call to each shard.
    calls_left: usize,
}

/// Intervals that one chain of calls counts.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Piece {
    intervals: Range<usize>,
    width_ms: u64,
}

// === impl Horizon ===

impl Horizon {
    pub(super) fn may_have(edges: &[UnixMillis]) -> bool {
        edges.len() >= 2 && edges.is_sorted_by(|one, other| one < other)
    }

    pub(super) fn odd_edges() -> Error {
        Error::Deployment("interval edges must ascend".to_owned())
    }
}

// === impl TopicAdmin ===

impl TopicAdmin<'_> {
    /// Counts a topic's delayed messages by due time, in the intervals between these edges, in order. Makes at most 48
    /// calls to each shard, or as many calls as intervals if the intervals have no common width.
    ///
    /// # Errors
    /// Redis cannot be used, or the edges do not ascend.
    pub async fn horizon(self, edges: &[UnixMillis]) -> Result<Horizon, Error> {
        if !Horizon::may_have(edges) {
            return Err(Horizon::odd_edges());
        }
        self.admin.client.calls.layout().await?;
        let pieces = pieces(edges);
        let (counts, calls_left) = (vec![0; edges.len() - 1], MAX_CALLS.max(pieces.len()));
        let mut counting = Counting { edges, counts, calls_left };
        for piece in pieces {
            if let Some(at) = self.count_piece(&mut counting, &piece).await? {
                let whole = edges[1..].iter().take_while(|edge| **edge <= at).count();
                counting.counts.truncate(whole.max(piece.intervals.start).min(piece.intervals.end));
                break;
            }
        }
        Ok(Horizon { counts: counting.counts })
    }

    /// Counts the intervals of a piece in every shard. If the calls ran out, returns the time up to which all shards
    /// are counted.
    async fn count_piece(
        self,
        counting: &mut Counting<'_>,
        piece: &Piece,
    ) -> Result<Option<UnixMillis>, Error> {
        let (topic, edges) = (self.topic, counting.edges);
        let Range { start, end } = piece.intervals;
        let (until, width) = (edges[end], Duration::from_millis(piece.width_ms));
        let mut asked: Vec<(ShardId, UnixMillis)> =
            self.admin.shards().all().into_iter().map(|shard| (shard, edges[start])).collect();
        while !asked.is_empty() {
            let Some(left) = counting.calls_left.checked_sub(1) else {
                return Ok(asked.iter().map(|(_, from)| *from).min());
            };
            counting.calls_left = left;
            let keyed = asked.iter().map(|(shard, _)| (*shard, 0)).collect();
            let request = |batch: &Batch<ShardId>| {
                let from = asked[batch.items[0]].1;
                histogram::request(batch.key, topic, (from, until), width)
            };
            let read = |_: &Batch<ShardId>, reply| Ok(vec![histogram::read(reply)?]);
            let answers = scatter(&self.admin.client.calls, keyed, request, read).await;
            let mut further = Vec::new();
            for ((shard, _), answer) in asked.iter().zip(answers) {
                let (slots, next) = answer?;
                add(&mut counting.counts, edges, piece, &slots);
                further.extend(next.map(|from| (*shard, from)));
            }
            asked = further;
        }
        Ok(None)
    }
}

/// Adds the counts of slots to their intervals. A slot may begin before the first edge, which cuts the slot.
fn add(counts: &mut [u64], edges: &[UnixMillis], piece: &Piece, slots: &[Slot]) {
    let Range { start, end } = piece.intervals;
    for slot in slots {
        let behind = edges[start..end].partition_point(|edge| *edge <= slot.start);
        counts[start + behind.saturating_sub(1)] += slot.count;
    }
}

/// Returns the chains of calls that count these intervals: a single chain if a width of the script divides the
/// intervals.
fn pieces(edges: &[UnixMillis]) -> Vec<Piece> {
    let (intervals, inner) = (edges.len() - 1, &edges[1..edges.len() - 1]);
    let divides = |width_ms: u64| inner.iter().all(|edge| edge.get() % width_ms == 0);
    let widths = [60, 30, 20, 15, 12, 10, 6, 5, 4, 3, 2, 1].map(|minutes| minutes * MINUTE_MS);
    match widths.into_iter().find(|width_ms| divides(*width_ms)) {
        Some(width_ms) => vec![Piece { intervals: 0..intervals, width_ms }],
        None => (0..intervals).map(|at| Piece { intervals: at..at + 1, width_ms: HOUR_MS }).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(edges: &[u64]) -> Vec<UnixMillis> {
        edges.iter().copied().map(UnixMillis::new).collect()
    }

    #[test]
    fn intervals_with_common_edges_are_one_chain_of_calls() {
        let widths = |edges: &[u64]| -> Vec<u64> {
            pieces(&at(edges)).into_iter().map(|piece| piece.width_ms).collect()
        };
        assert_eq!(widths(&[1, HOUR_MS, 25 * HOUR_MS, 25 * HOUR_MS + 7]), [HOUR_MS]);
        assert_eq!(widths(&[1, 15 * MINUTE_MS, 30 * MINUTE_MS]), [15 * MINUTE_MS]);
        assert_eq!(widths(&[1, 7 * MINUTE_MS, 9 * MINUTE_MS, 11]), [MINUTE_MS]);
        assert_eq!(widths(&[1, 1000, 2000]), [HOUR_MS, HOUR_MS]);
        assert_eq!(widths(&[1, 2]), [HOUR_MS]);
    }

    #[test]
    fn a_slot_is_counted_in_its_interval_even_if_the_first_edge_cuts_it() {
        let edges = at(&[HOUR_MS + 5, 2 * HOUR_MS, 4 * HOUR_MS]);
        let piece = &pieces(&edges)[0];
        let slot = |hour: u64, count| Slot { start: UnixMillis::new(hour * HOUR_MS), count };
        let mut counts = [0; 2];
        add(&mut counts, &edges, piece, &[slot(1, 1), slot(2, 10), slot(3, 100)]);
        assert_eq!(counts, [1, 110]);
    }
}
