//! The sink `redis-stream`: XADD into streams of this Redis or another.

mod config;
mod deliver;
mod encode;

pub use config::RedisStreamConfig;
pub(crate) use deliver::RedisStreamSink;
