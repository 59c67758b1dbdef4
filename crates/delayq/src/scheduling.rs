//! When to pump: which shard is due, when its call must go out, and whether the clock of its Redis can be trusted.
//!
//! ```text
//!             wakes ─┐
//!  answers of pumps ─┤
//!                    ▼
//!     Rota ──poll──► Schedule ──next due──► Aim ──shot──► Alarm ──► Schedule::rounds ──► calls
//!                    ▲                                                                     │
//!                    └── jump, holds ◄── Guard ◄──────────── Redis's clock ────────────────┘
//! ```
//!
//! Everything but the alarm is pure. Nothing here knows a connection, a metric, a configuration or a fleet: a program
//! that pumps gives times and answers, and sends the calls.

mod aim;
mod alarm;
mod guard;
mod node_id;
mod rota;
mod schedule;

pub use aim::{Aim, Shot};
pub use alarm::Alarm;
pub use guard::{Comparison, Guard, Verdict};
pub use node_id::NodeId;
pub use rota::Rota;
pub use schedule::{Found, Hold, NextRounds, Pipeline, Round, Schedule};
