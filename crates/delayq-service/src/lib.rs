//! The life of a process: configuration, logs, metrics, admin endpoint, signals and drain.
//!
//! A binary is a [`Service`]: its `main` calls [`main`], which recites the steps of [`life`]. What the sections of a
//! configuration look like is told in [`config`], what an operator reads of an error in [`codes`].

pub mod admin;
mod arguments;
pub mod codes;
pub mod config;
pub mod deployment;
mod exit;
mod fault;
mod fitness;
pub mod group;
mod healthcheck;
mod heartbeat;
pub mod life;
pub mod metrics;
mod program;
mod readiness;
mod sections;
mod shutdown;
mod signals;
mod systemd;
mod tasks;
pub mod telemetry;

pub use exit::Exit;
pub use fault::Fault;
pub use fitness::Fitness;
pub use heartbeat::Heartbeat;
pub use life::{Life, Process, Service, ServiceConfig, install_tls, live, main, main_of_arguments};
pub use metrics::{Lateness, Metrics};
pub use program::Program;
pub use readiness::{Condition, Readiness, Unready};
pub use shutdown::Shutdown;
pub use signals::Signals;
pub use tasks::{Drained, Supervisor, Tasks};
