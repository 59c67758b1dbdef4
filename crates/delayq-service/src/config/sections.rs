//! The sections shared by every binary; a role's sections live in the crate of the role.

mod admin;
mod deployment;
mod log;
mod redis;
mod redis_node;
mod sentinel;
mod shutdown;
mod spool;
mod traces;

pub use admin::AdminConfig;
pub use deployment::DeploymentConfig;
pub use log::{LogConfig, LogFormat};
pub use redis::RedisConfig;
pub use redis_node::RedisNodeConfig;
pub use sentinel::SentinelConfig;
pub use shutdown::ShutdownConfig;
pub use spool::SpoolConfig;
pub use traces::TracesConfig;
