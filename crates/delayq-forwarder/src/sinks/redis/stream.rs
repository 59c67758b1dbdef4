//! The sink `redis-stream`: XADD into streams of this or another Redis.

mod config;
mod deliver;
mod encode;

pub use config::RedisStreamConfig;
pub(crate) use deliver::RedisStreamSink;
