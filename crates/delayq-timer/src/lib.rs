//! The timer: owns shards and pumps what is due into the ready queues.
//!
//! ```text
//!  membership ──gained──► claim (epoch from Redis) ──► schedule ──► alarm ──► pump, in pipelines    
//!      ▲  │                                             ▲  ▲                       │
//!      │  └─lost──► stop ──confirm                      │  └── next due, more ──────┤
//!      │                                      wakes ────┘                          ├──► clock guard ──► hold
//!      └────────────── is it still mine? ◄───────────────────────── fenced ────────┘
//! ```
//!
//! The timer sleeps until the first due time of its shards, and is woken when a nearer one is put.
//! [`build`] does all that can fail, [`Timer::run`] pumps until it is asked to stop.
//!
//! # Bounds
//!
//! * Never early: the pump script asks Redis's own clock.
//! * A lost wake-up costs at most `poll_interval`, or less: after a reconnect every shard is polled at once.
//! * Two owners of one shard cost work, and deliver nothing twice.
//! * A timer that Redis does not answer for 3 s gives its shards to other timers, if Redis answers any of the other
//!   timers.
//! * A shard that nobody pumps is pumped by another timer at its next poll once a message is ten seconds overdue: after
//!   16 s at most while few timers share the shards.
//!
//! The timer that pumps the first shard also sweeps the deployment, as [`SweepConfig`] says: the sweep checks every
//! message, index and counter, and repairs faults.

mod apart;
mod books;
mod calls;
pub mod codes;
mod config;
mod events;
mod fleet;
mod foreign;
mod forgetting;
mod hindrance;
mod member;
mod metrics;
mod others;
mod ownership;
mod progress;
mod pumping;
mod redis_health;
mod redises;
mod safety_poll;
mod shards;
pub mod stores;
mod survey;
mod sweep_config;
mod sweep_metrics;
mod sweeping;
mod timer;
mod wakes;

pub use config::TimerConfig;
pub use sweep_config::SweepConfig;
pub use timer::{Deps, Membership, Timer, build};
