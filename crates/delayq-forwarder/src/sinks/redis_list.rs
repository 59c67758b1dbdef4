//! The sink `redis-list`: RPUSH or LPUSH, for consumers that pop.

mod check;
mod config;
mod deliver;
mod encode;

pub use config::{Element, End, RedisListConfig};
pub(crate) use deliver::RedisListSink;
