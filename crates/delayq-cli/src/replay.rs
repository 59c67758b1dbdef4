//! Replaying an event log, faster than it happened, and checking what is delivered.
//!
//! ```text
//! log ─► script (what to do when, what to expect) ─► player ─► Redis ─► timer ─► forwarder ─► file
//!            │                    day (log time ─► Redis's clock) ▲                            │
//!            └──────────────────────────► verdict ◄── deliveries ─┴────────────────────────────┘
//! ```
//! The journal in the data folder says how far the player is: killed at any moment and started again, it goes on.

mod day;
mod deliveries;
mod journal;
mod player;
mod run;
mod script;
mod verdict;
mod view;

pub use day::Day;
pub use journal::Journal;
pub use player::Clock;
pub use run::{Played, Run};
pub use script::Script;
