//! Reserving: one call of `reserve` for several shards of one lane on a single node, so that messages of one node never
//! wait for the answer of another node.

use super::lane_table::LaneTable;
use crate::circuit::Pass;
use crate::context::Context;
use crate::lane_state::{LaneState, Pipeline, ShardPart};
use delayq::protocol::{Reservation, ReserveReport, ReserveRequest, ShardId};
use delayq::{Advice, Error};
use std::time::Instant;

pub(super) struct Ask {
    lane: usize,
    probe: bool,
    requests: Vec<(ShardId, ReserveRequest)>,
    /// By number in the lane.
    topics: Vec<Vec<usize>>,
}

pub(super) struct ReserveAnswer {
    pub(super) lane: usize,
    pub(super) probe: bool,
    pub(super) shards: Vec<ShardAnswer>,
    pub(super) room: (usize, usize),
}

pub(super) struct ShardAnswer {
    pub(super) shard: ShardId,
    pub(super) topics: Vec<usize>,
    pub(super) found: Result<ReserveReport, Error>,
    pub(super) more: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) of_a_shard: u32,
    pub(super) of_all: usize,
}

// === impl Bounds ===

impl Bounds {
    pub(super) fn free_bytes(self, table: &LaneTable) -> usize {
        let taken: usize = table.lanes.iter().map(|lane| lane.bytes).sum();
        self.of_all.saturating_sub(taken)
    }
}

// === impl Ask ===

impl Ask {
    /// The asks due now: for each lane with room, the shards that may have messages and have no ask in flight. Lanes
    /// take turns at being first.
    pub(super) fn all(table: &mut LaneTable, context: &Context, bounds: Bounds, now: Instant) -> Vec<Self> {
        let mut asks = Vec::new();
        let mut free_bytes = bounds.free_bytes(table);
        let count = table.lanes.len();
        table.turn = (table.turn + 1) % count.max(1);
        for number in (table.turn..count).chain(0..table.turn) {
            if free_bytes == 0 {
                break;
            }
            let state = &mut table.lanes[number];
            let before = state.bytes;
            let probe = state.lane.pass(now) == Pass::Probe;
            let pipelines = state.shares(now, bounds.of_a_shard, free_bytes).into_iter();
            for (parts, max_bytes) in pipelines.flat_map(|Pipeline { parts, max_bytes }| {
                context
                    .places
                    .by_node(parts, |part| part.shard)
                    .into_iter()
                    .map(move |parts| (parts, max_bytes))
            }) {
                let request = |ShardPart { shard, max, topics }| {
                    let lease = Some(context.lease);
                    let names = topics.iter().map(|topic: &usize| state.topics[*topic].clone()).collect();
                    ((shard, ReserveRequest { topics: names, most: max, max_bytes, lease }), topics)
                };
                let (requests, topics) = parts.into_iter().map(request).unzip();
                asks.push(Self { lane: number, probe, requests, topics });
            }
            free_bytes = free_bytes.saturating_sub(state.bytes - before);
        }
        asks
    }

    pub(super) async fn run(self, context: Context) -> ReserveAnswer {
        context.stats.reserves.inc_by(self.requests.len() as u64);
        let reports = context.holder.reserve(&self.requests).await;
        let room = self.requests.iter().fold((0, 0), |(messages, bytes), (_, request)| {
            (messages + usize::from(request.most), bytes + request.max_bytes as usize)
        });
        let asked = self.requests.iter().zip(self.topics);
        let shards = asked.zip(reports).map(|(((shard, request), topics), found)| {
            let more = found.as_ref().is_ok_and(|report| left_over(report, request));
            ShardAnswer { shard: *shard, topics, found, more }
        });
        ReserveAnswer { lane: self.lane, probe: self.probe, shards: shards.collect(), room }
    }
}

// === impl LaneState ===

impl LaneState {
    pub(super) fn answered(&mut self, answer: &ShardAnswer, now: Instant, after_error: Instant) {
        self.asked.remove(&answer.shard);
        let topics = answer.topics.iter().copied();
        match &answer.found {
            // The next poll finds the remaining messages.
            Err(error) if error.advice() == Advice::GiveUp => {}
            // Asked again, but not immediately.
            Err(_) => self.heat(answer.shard, topics, after_error),
            Ok(_) if answer.more => self.heat(answer.shard, topics, now),
            Ok(report) => {
                if let Some(wait) = report.wait {
                    self.heat(answer.shard, topics, now + wait);
                }
            }
        }
    }
}

fn left_over(report: &ReserveReport, request: &ReserveRequest) -> bool {
    // A shard that stopped at the limit on bytes reports so itself.
    report.messages.len() >= usize::from(request.most)
}

pub(super) fn payload_bytes(messages: &[Reservation]) -> usize {
    messages.iter().map(|message| message.envelope.payload.len()).sum()
}
