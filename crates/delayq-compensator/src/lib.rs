//! The compensator: replays writes that could not reach Redis.
//!
//! ```text
//!           ┌─ has the spool changed? ─┐
//!           ▼                          │ nothing waits
//!  next batch, in order ─► begin ─► put · cancel · reschedule ─► done     stored, ready, exists, cancelled, moved
//!           ▲                          │                     └─► rejected conflict, refused, stale, too late, damaged
//!           └─────── back off ◄────────┴─ Redis cannot be used: everything keeps its place
//! ```
//!
//! [`build`] takes the lease on the spool's folder, [`Compensator::run`] replays until it is asked to stop. It may
//! die anywhere: what was not noted as done is replayed again, under the same id. Where the disk is full, the room that
//! was kept for it lets out what waits.

mod clock;
pub mod codes;
mod compensator;
mod config;
mod metrics;
mod outcome;
mod replay;
mod room;
mod runs;
mod wake;

pub use compensator::{Compensator, Deps, build};
pub use config::CompensatorConfig;
pub use replay::{Replayer, Report};
