//! The compensator: carries out writes that were recorded where Redis could not be reached, or on purpose.
//!
//! ```text
//!  spool · outbox · intakes ─► next records, in order ─► put · cancel · reschedule ─► settled: done    stored, exists, moved, …
//!             ▲                                                     │                     rejected conflict, refused, stale, …
//!             └────────────────── back off ◄────────────────────────┘                     resting  until it is tried again
//! ```
//! A record that only its own shard or topic keeps from being carried out rests alone, with the later ones of its message or
//! group. While Redis or a source cannot be used, everything of that source stays in order.
//!
//! Each source is a task of its own. It may die anywhere: what was not settled is carried out again under the same record id,
//! by which Redis recognises the repeat. [`build`] takes the lease on the spool's folder, and on a full disk its compensator
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
mod redis_clock;
mod report;
mod resting;
mod rests;
mod room;
mod source;
mod source_metrics;
mod sources;
mod spool;
mod taking;
mod unconfirmed;
mod writes;

pub use compensator::{Compensator, Deps, build};
pub use config::CompensatorConfig;
pub use confirming::watch_confirmations;
pub use intake::{
    IntakeConfig, IntakeDeps, IntakeFault, IntakeLook, KafkaIntakeConfig, NatsIntakeConfig,
    RabbitmqIntakeConfig, build_intakes, look_at_intake,
};
pub use outbox::{
    AsideRow, AskedRow, Books, OutboxConfig, OutboxDeps, OutboxKeeper, Reconcile, Reconciled, build_outbox,
    outbox_keeper,
};
pub use report::Report;
pub use source_metrics::SourcesMetrics;
pub use sources::{Sources, SourcesConfig, SourcesDeps};
pub use taking::SourceLoop;
