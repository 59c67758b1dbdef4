//! The sinks `redis-stream` and `redis-list`: they share the link and the check of the server.

mod check;
mod link;
pub(super) mod list;
pub(super) mod stream;

pub use list::{Element, End, RedisListConfig};
pub use stream::RedisStreamConfig;
