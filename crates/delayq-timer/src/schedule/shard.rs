//! An owned shard, as far as the schedule concerns it.

use super::round::Pipeline;
use crate::node_id::NodeId;
use delayq::UnixMillis;
use std::time::Instant;

/// An owned shard, as far as the schedule concerns it.
#[derive(Clone, Debug)]
pub(super) struct Shard {
    pub(super) epoch: u64,
    pub(super) node: NodeId,
    /// The earliest due time; lowered by wakes, replaced by answers.
    pub(super) next_due: Option<UnixMillis>,
    /// The earliest wake received while a call was in flight: the call's answer may be older than the wake.
    pub(super) woken: Option<UnixMillis>,
    pub(super) out: Option<Pipeline>,
    /// Poll even if nothing is due.
    pub(super) poll: bool,
    /// The last call was sent for a due time, and not only as a poll.
    pub(super) sent_for_due: bool,
    pub(super) more: bool,
    pub(super) resting: Option<Instant>,
    pub(super) failures: u32,
    /// Set while the shard is on hold: no pump is sent.
    pub(super) held: bool,
    /// Set while ownership is in doubt: no pump is sent until the shard is owned again.
    pub(super) doubted: bool,
    pub(super) turn: u64,
}
