//! Everything on a single machine: private Redis and etcd in a data folder, and every role in this process.

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
mod redises;
mod roles;
mod servers;
mod shape;

pub use credentials::{TOKEN, TOKENS};
pub use folder::DataFolder;
pub use forward::Forward;
pub use given::Given;
pub use roles::Roles;
pub use servers::{Options, Servers};
pub use shape::Shape;
