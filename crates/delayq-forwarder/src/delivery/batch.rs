//! A batch: messages of one lane that were reserved together.

use crate::lane::Lane;
use crate::lane_state::TopicRoutes;
use delayq::protocol::{Reservation, UnixMicros};
use std::sync::Arc;
use std::time::Instant;

/// Messages of one lane that were reserved together.
pub(crate) struct LaneBatch {
    pub(crate) lane_number: usize,
    pub(crate) lane: Arc<Lane>,
    pub(crate) messages: Vec<Reservation>,
    pub(crate) bytes: usize,
    pub(crate) routes: TopicRoutes,
    pub(crate) probe: bool,
    /// Time of the reserve, by Redis's clock and by this host's.
    pub(crate) reserved: (UnixMicros, Instant),
    /// Messages that the lane had delivered before this batch.
    pub(crate) delivered_before: u64,
}
