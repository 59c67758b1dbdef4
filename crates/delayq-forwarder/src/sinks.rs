//! The kinds of sinks, each in a folder with the same files: config, check, encode, deliver, tests.

mod file;
mod redis_link;
mod redis_list;
mod redis_stream;
mod stdout;

pub use file::FileConfig;
pub use redis_list::{Element, End, RedisListConfig};
pub use redis_stream::RedisStreamConfig;
pub use stdout::StdoutConfig;

use crate::{
    config::{Kind, SinkConfig},
    sink::Sink,
};
use delayq_service::config::RedisConfig;
use std::sync::Arc;

/// Makes a sink. Nothing is connected yet.
///
/// # Errors
/// Why it cannot be made as it is configured, in a sentence.
pub(crate) fn make(config: &SinkConfig, redis: &RedisConfig) -> Result<Arc<dyn Sink>, String> {
    let kind = config.kind().ok_or("it has not exactly one kind")?;
    let missing = || format!("it has no table [{kind}]");
    Ok(match kind {
        Kind::File => Arc::new(file::FileSink::new(config.file.clone().ok_or_else(missing)?)),
        Kind::Stdout => Arc::new(stdout::StdoutSink),
        Kind::RedisStream => {
            let stream = config.redis_stream.clone().ok_or_else(missing)?;
            Arc::new(redis_stream::RedisStreamSink::new(stream, redis, *config.timeout)?)
        }
        Kind::RedisList => {
            let list = config.redis_list.clone().ok_or_else(missing)?;
            Arc::new(redis_list::RedisListSink::new(list, redis, *config.timeout)?)
        }
    })
}
