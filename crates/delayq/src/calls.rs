//! Sending calls to the shards of a deployment. [`ride`] is the road of each call, and [`next`] decides about the step
//! after a refusal.
//!
//! ```text
//! refused, and the shard's layout is ─┬─ newer than known ─► known from now on ─► repeat
//!                                     ├─ older than known ─► raise the shard   ─► repeat
//!                                     └─ of no relation   ─► an error
//! ```

mod asking;
mod grouping;
mod learning;
mod load;
mod next;
mod ride;
mod scatter;
mod sending;
mod way;

pub(crate) use grouping::Batch;
pub(crate) use load::Load;
pub(crate) use next::{Again, Write};
pub(crate) use ride::{Ride, Rules};
pub(crate) use scatter::{MAX_IDS_A_PIPELINE, carry, scatter};
pub(crate) use way::{AtNode, Calls};
