//! The forwarder: moves ready messages into an external message queue, with confirms.
//!
//! ```text
//! reserve ─► route ─► encode ─► deliver ─► settle
//!    │                             │          ├─ delivered ─► ack
//!    └ undelivered messages        │          ├─ rejected ──► bury, with the destination's reason
//!      stay in Redis               │          └─ unavailable ► release
//!                                  └ leases are extended meanwhile
//! ```
//! [`build`] does all that can fail and starts nothing; [`Forwarder::run`] forwards until shutdown.

mod circuit;
pub mod codes;
mod config;
mod context;
mod delivery;
mod destinations;
mod encode;
mod encoding;
mod failing;
mod forwarder;
mod hot_topics;
mod lane;
mod lane_state;

mod pace;
mod parcel;
mod pattern;
mod progress;
mod routes;
mod service;
mod settle;
mod sink;
mod sinks;
mod stats;
mod template;
mod traced;

pub use config::{Config, ForwarderConfig, RouteConfig, Settings};
pub use destinations::examine;
pub use encoding::Encoding;
pub use forwarder::{Deps, Forwarder, build};
pub use parcel::{About, Parcel};
pub use pattern::Pattern;
pub use service::ForwarderService;
pub use sink::{CheckError, Sink};
pub use sinks::{
    Element, FileConfig, KafkaConfig, Kind, NatsConfig, RabbitmqConfig, RedisForm, RedisSinkConfig,
    SinkConfig, StdoutConfig, WebhookConfig,
};
pub use stats::Stats;
pub use template::Template;
