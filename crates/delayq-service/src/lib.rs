//! The life of a process: configuration, logs, metrics, admin endpoint, signals and drain.
//!
//! A binary is a [`Service`]: its `main` calls [`main`], which runs through the steps of [`life`]. [`config`] explains
//! the sections of a configuration, [`mod@codes`] the operator-facing errors.

pub mod admin;
mod arguments;
pub mod brokers;
mod clock;
pub mod codes;
pub mod config;
pub mod deployment;
pub mod events;
mod exit;
mod fault;
mod fitness;
pub mod headers;
mod healthcheck;
mod heartbeat;
pub mod json;
pub mod life;
pub mod metrics;
mod name;
pub mod policy_text;
mod program;
pub mod put_line;
pub mod put_options;
mod readiness;
mod repeats;
mod sections;
mod shutdown;
mod signals;
mod systemd;
mod tasks;
pub mod telemetry;
mod traceparent;
pub mod traces;
pub mod when;

pub use clock::host_now;
pub use exit::Exit;
pub use fault::Fault;
pub use fitness::Fitness;
pub use healthcheck::{ask, unready};
pub use heartbeat::Heartbeat;
pub use life::{Life, Process, Service, ServiceConfig, install_tls, live, main, main_of_arguments};
pub use metrics::{Lateness, Metrics};
pub use name::{is_name, name_of_process, validate_name};
pub use program::Program;
pub use readiness::{Condition, Readiness, Unready};
pub use shutdown::Shutdown;
pub use signals::Signals;
pub use tasks::{Drained, Supervisor, Tasks};
pub use traceparent::{TRACEPARENT, TraceParent};
pub use traces::Traces;
