//! The compensator: resubmits writes that could not reach Redis.
//!
//! ```text
//!           ┌─ has the spool changed? ─┐
//!           ▼                          │ nothing waits
//!  next batch, in order ─► put · cancel · reschedule ─► done     stored, ready, exists, cancelled, moved
//!           ▲                          │            └─► rejected conflict, refused, stale, too late, damaged
//!           └─────── back off ◄────────┴─ Redis is unavailable: everything stays in order
//! ```
//! A record that only its own shard or topic keeps from being carried out rests alone, with the later ones of its message or
//! group.
//!
//! [`build`] takes the lease on the spool's folder, [`Compensator::run`] resubmits until shutdown. It may die anywhere: what
//! was not recorded as done is resubmitted under the same record id, by which Redis recognises the repeat. On a full disk, it
//! uses room that it has reserved.

mod away;
pub mod codes;
mod compensator;
mod config;
mod confirming;
mod groups;
#[cfg_attr(
    not(any(feature = "intake-kafka", feature = "intake-nats", feature = "intake-rabbitmq")),
    allow(dead_code, reason = "the client of a broker calls it, and its tests do without one")
)]
mod intake;
mod metrics;
#[cfg_attr(
    not(any(feature = "mysql", feature = "postgres")),
    allow(
        dead_code,
        unreachable_code,
        unused_variables,
        reason = "without a client of a database it only refuses"
    )
)]
mod outbox;
mod outcome;
mod probes;
mod redis_clock;
mod resting;
mod rests;
mod resubmit;
mod room;
mod source;
mod source_metrics;
mod sources;
mod taking;
mod unconfirmed;
mod wake;
mod writes;

pub use compensator::{Compensator, Deps, build};
pub use config::CompensatorConfig;
pub use confirming::watch_confirmations;
pub use intake::{
    IntakeConfig, IntakeDeps, IntakeFault, IntakeLook, Intakes, KafkaIntakeConfig, NatsIntakeConfig,
    RabbitmqIntakeConfig, build_intakes, look_at_intake,
};
pub use outbox::{
    AsideRow, AskedRow, Books, OutboxConfig, OutboxDeps, OutboxKeeper, Reconcile, Reconciled, build_outbox,
    outbox_keeper,
};
pub use resubmit::{Report, Resubmitter};
pub use source_metrics::SourcesMetrics;
pub use sources::{Sources, SourcesConfig, SourcesDeps};
pub use taking::SourceLoop;
