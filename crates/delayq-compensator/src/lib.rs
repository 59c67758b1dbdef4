//! The compensator: carries out writes that were recorded where Redis could not be reached, or on purpose.
//!
//! ```text
//!  spool · outbox · intakes ─► next records, in order ─► put · cancel · reschedule ─► settled: done    stored, exists, moved, …
//!             ▲                                                     │                     rejected conflict, refused, stale, …
//!             └────────────────── back off ◄────────────────────────┘                     resting  until it is tried again
//! ```
//! A record that only its own shard or topic holds up rests alone, with later records of the same message or group. While
//! Redis or a source cannot be used, everything of that source stays in order.
//!
//! Each source runs as a separate task, which may die anywhere: unsettled records are carried out again under the same
//! record ids, by which Redis recognises the repeats. [`build`] takes the lease on the spool's folder, and reserves room for
//! resubmitting on a full disk.

mod away;
mod ballast;
pub mod codes;
mod compensator;
mod config;
mod confirming;
mod groups;
#[cfg_attr(
    not(any(
        feature = "intake-kafka",
        feature = "intake-nats",
        feature = "intake-rabbitmq",
        feature = "intake-sqs"
    )),
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
mod parts;
mod redis_clock;
mod report;
mod resting;
mod rests;
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
    IntakeConfig, IntakeFault, IntakeLook, KafkaIntakeConfig, NatsIntakeConfig, RabbitmqIntakeConfig,
    SqsIntakeConfig, build_intakes, look_at_intake,
};
pub use outbox::{
    AsideRow, AskedRow, Books, OutboxConfig, OutboxKeeper, Reconcile, Reconciled, build_outbox, outbox_keeper,
};
pub use report::Report;
pub use source_metrics::SourcesMetrics;
pub use sources::{Sources, SourcesConfig, SourcesDeps};
pub use taking::{SourceDeps, SourceLoop};
