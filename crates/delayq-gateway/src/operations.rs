//! Operations: one action on all messages that match a filter.
//!
//! ```text
//!  begin ─► slot (one of two) ─► steps of up to 100 messages ─► done | aborted | failed ─► kept for a week
//!             ▲                     │ each: select, act, save
//!             └── another gateway ──┘ if the holder saves nothing for five seconds
//! ```
//! An operation is a versioned note in Redis, so one gateway at a time advances the operation. The call of a step has a record:
//! the shard carries the call out once, and keeps the outcomes until the note is saved. If a gateway dies between call and
//! note, the next holder asks the shard for the outcomes.

mod estimate;
mod order;
mod pace;
mod running;
mod state;
mod store;

pub(crate) use estimate::{Estimate, estimate};
pub(crate) use order::{Deed, Order};
pub(crate) use running::Running;
pub(crate) use state::Operation;
pub(crate) use store::Begun;
