//! The sinks `redis-stream` and `redis-list`, with a common link and server check.

mod check;
mod link;
pub(super) mod list;
pub(super) mod stream;

pub use list::{Element, End, RedisListConfig};
pub use stream::RedisStreamConfig;

use delayq_service::config::{Faults, RedisConfig};

fn validate_redis(redis: Option<&RedisConfig>, at: &mut Faults) {
    let Some(redis) = redis else { return };
    at.section("redis", redis);
    if !redis.nodes.is_empty() {
        at.refuse("redis.nodes", "a sink delivers into a single Redis");
    }
}
