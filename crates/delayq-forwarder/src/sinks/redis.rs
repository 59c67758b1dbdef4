//! The sink `redis`: streams and lists of this Redis or another.

mod check;
mod config;
mod deliver;
mod encode;
mod link;

pub use config::{Element, RedisForm, RedisSinkConfig};
pub(crate) use deliver::RedisSink;
