//! The sink `redis-stream`: XADD into streams of this or another Redis.

mod check;
mod config;
mod deliver;
mod encode;

pub(super) use check::check as look_at;
pub use config::RedisStreamConfig;
pub(crate) use deliver::RedisStreamSink;
