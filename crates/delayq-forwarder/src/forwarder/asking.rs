//! Asking shards for messages: one call of `reserve` for several shards of one lane.

use super::board::Board;
use crate::{
    circuit::Pass,
    lane_state::{LaneState, Part, Pipeline},
    means::Means,
};
use delayq_core::{Advice, Error, Reservation, ReserveReport, ReserveRequest, ShardId};
use std::time::Instant;

/// What one lane asks of some shards, in one pipeline.
pub(super) struct Ask {
    lane: usize,
    probe: bool,
    requests: Vec<(ShardId, ReserveRequest)>,
    /// The topics of each request, by their numbers in the lane.
    topics: Vec<Vec<usize>>,
}

/// An ask with what the shards said.
pub(super) struct Answer {
    pub(super) lane: usize,
    pub(super) probe: bool,
    pub(super) shards: Vec<ShardAnswer>,
    /// The most messages it could have brought, and the most bytes of payloads.
    pub(super) room: (usize, usize),
}

/// What one shard said.
pub(super) struct ShardAnswer {
    pub(super) shard: ShardId,
    /// The topics that it was asked for, by their numbers in the lane.
    pub(super) topics: Vec<usize>,
    pub(super) found: Result<ReserveReport, Error>,
    /// Whether it may have more than it was asked for.
    pub(super) more: bool,
}

/// The most bytes of payloads.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// In one answer of a shard.
    pub(super) of_a_shard: u32,
    /// On their way to all destinations.
    pub(super) of_all: usize,
}

// === impl Bounds ===

impl Bounds {
    /// How many more bytes may be on their way.
    pub(super) fn free_bytes(self, board: &Board) -> usize {
        let taken: usize = board.lanes.iter().map(|lane| lane.bytes).sum();
        self.of_all.saturating_sub(taken)
    }
}

// === impl Ask ===

impl Ask {
    /// What to ask now: for each lane with room, the shards that may have something for it, and are not being asked. The
    /// lanes take turns in who is first.
    pub(super) fn all(board: &mut Board, means: &Means, bounds: Bounds, now: Instant) -> Vec<Self> {
        let mut asks = Vec::new();
        let mut free_bytes = bounds.free_bytes(board);
        let count = board.lanes.len();
        board.turn = (board.turn + 1) % count.max(1);
        for number in (board.turn..count).chain(0..board.turn) {
            if free_bytes == 0 {
                break;
            }
            let state = &mut board.lanes[number];
            let before = state.bytes;
            let probe = state.lane.pass(now) == Pass::Probe;
            for Pipeline { parts, most_bytes } in state.shares(now, bounds.of_a_shard, free_bytes) {
                let request = |Part { shard, most, topics }| {
                    let lease = Some(means.lease);
                    let names = topics.iter().map(|topic: &usize| state.topics[*topic].clone()).collect();
                    ((shard, ReserveRequest { topics: names, most, most_bytes, lease }), topics)
                };
                let (requests, topics) = parts.into_iter().map(request).unzip();
                asks.push(Self { lane: number, probe, requests, topics });
            }
            free_bytes = free_bytes.saturating_sub(state.bytes - before);
        }
        asks
    }

    /// Asks.
    pub(super) async fn run(self, means: Means) -> Answer {
        means.stats.reserves.inc_by(self.requests.len() as u64);
        let reports = means.client.reserve_many(&self.requests).await;
        let room = self.requests.iter().fold((0, 0), |(messages, bytes), (_, request)| {
            (messages + usize::from(request.most), bytes + request.most_bytes as usize)
        });
        let asked = self.requests.iter().zip(self.topics);
        let shards = asked.zip(reports).map(|(((shard, request), topics), found)| {
            let more = found.as_ref().is_ok_and(|report| left_over(report, request));
            ShardAnswer { shard: *shard, topics, found, more }
        });
        Answer { lane: self.lane, probe: self.probe, shards: shards.collect(), room }
    }
}

// === impl LaneState ===

impl LaneState {
    /// Notes what a shard said: whether it may have more, and from when on.
    pub(super) fn answered(&mut self, answer: &ShardAnswer, now: Instant, after_error: Instant) {
        self.asked.remove(&answer.shard);
        let topics = answer.topics.iter().copied();
        match &answer.found {
            // The next look finds what still waits.
            Err(error) if error.advice() == Advice::GiveUp => {}
            // Tried again, like every shard that may have something, but not at once.
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

/// Whether a shard may have more for this lane than it was asked for.
fn left_over(report: &ReserveReport, request: &ReserveRequest) -> bool {
    // Where a bound on bytes ended it, the shard says so itself.
    report.messages.len() >= usize::from(request.most)
}

/// How many bytes of payloads there are.
pub(super) fn payload_bytes(messages: &[Reservation]) -> usize {
    messages.iter().map(|message| message.envelope.payload.len()).sum()
}
