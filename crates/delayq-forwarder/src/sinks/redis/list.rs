//! The sink `redis-list`: RPUSH or LPUSH, for consumers that pop.

mod config;
mod deliver;

pub use config::{Element, End, RedisListConfig};
pub(crate) use deliver::RedisListSink;
