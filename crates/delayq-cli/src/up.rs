//! Everything on one machine: a Redis and an etcd of its own in a data folder, and every role in this process.

mod child;
mod cluster;
mod configuration;
mod credentials;
mod folder;
mod forward;
mod given;
mod patience;
mod ports;
mod programs;
mod roles;
mod servers;

pub use folder::DataFolder;
pub use forward::Forward;
pub use given::Given;
pub use roles::Roles;
pub use servers::{Options, Servers};
