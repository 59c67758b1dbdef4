//! Checks of the stream, the consumer and the stream of dead records.

use super::config::NatsIntakeConfig;
use async_nats::jetstream::Context;
use async_nats::jetstream::consumer::{AckPolicy, Config};
use async_nats::jetstream::stream::Stream;

/// The stream, if another stream takes the dead records.
pub(super) async fn stream(
    context: &Context,
    config: &NatsIntakeConfig,
    dead: &str,
) -> Result<Stream, String> {
    let name = &config.stream;
    let stream = context.get_stream(name).await.map_err(|error| format!("the stream `{name}`: {error}"))?;
    let taken = context.stream_by_subject(dead).await;
    let taken = taken.map_err(|error| format!("no stream takes the dead subject `{dead}`: {error}"))?;
    if taken == *name && config.subject.is_none() {
        return Err(format!(
            "the dead subject `{dead}` belongs to the stream `{name}`: dead records would be taken in again"
        ));
    }
    Ok(stream)
}

/// Refuses a consumer that would lose records, or reads others.
pub(super) fn check(found: &Config, config: &NatsIntakeConfig) -> Result<(), String> {
    let name = &config.consumer;
    if found.ack_policy != AckPolicy::Explicit {
        return Err(format!("the consumer `{name}` has no explicit acks"));
    }
    if found.max_deliver > 0 {
        return Err(format!(
            "the consumer `{name}` has max_deliver={}: it would lose records",
            found.max_deliver
        ));
    }
    if found.filter_subject != config.subject.clone().unwrap_or_default() {
        return Err(format!("the consumer `{name}` reads the subject `{}`", found.filter_subject));
    }
    Ok(())
}
