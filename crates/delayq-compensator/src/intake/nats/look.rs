//! A look at a stream and a consumer, which creates no consumer.

use super::config::NatsIntakeConfig;
use super::consumer;
use super::turn::is_held;
use crate::intake::look::{IntakeFault, IntakeLook};
use async_nats::Client;
use async_nats::jetstream::context::{ConsumerInfoErrorKind, ContextBuilder};
use async_nats::jetstream::stream::{InfoError, Stream};
use delayq_service::brokers::NatsRefusals;
use futures_util::TryStreamExt as _;
use std::time::Duration;

/// Maximum time for each answer of the server, which never answers a request without permission.
const PATIENCE: Duration = Duration::from_secs(2);

/// Looks at the stream, the consumer and the stream of the dead records.
pub(crate) async fn look(config: &NatsIntakeConfig, dead: &str) -> Result<IntakeLook, IntakeFault> {
    let refusals = NatsRefusals::default();
    let heard = refusals.clone();
    let options = config.access.options("delayq-look").await.map_err(IntakeFault::Unreachable)?;
    let options =
        options.connection_timeout(PATIENCE).request_timeout(Some(PATIENCE)).event_callback(move |event| {
            heard.hear(&event);
            std::future::ready(())
        });
    let client = config.access.connect(options).await.map_err(IntakeFault::Unreachable)?;
    let seen = see(&client, config, dead).await;
    seen.map_err(|why| {
        IntakeFault::Unusable(match refusals.last() {
            Some(words) => format!("{why}: {words}"),
            None => why,
        })
    })
}

async fn see(client: &Client, config: &NatsIntakeConfig, dead: &str) -> Result<IntakeLook, String> {
    let NatsIntakeConfig { stream: of, consumer: name, .. } = config;
    let context = ContextBuilder::new().timeout(PATIENCE).build(client.clone());
    let mut stream = consumer::stream(&context, config, dead).await?;
    let first = stream.cached_info().state.first_sequence;
    let (lag, lost) = match stream.consumer_info(name).await {
        Ok(info) => {
            consumer::check(&info.config, config)?;
            let lost = first.saturating_sub(info.delivered.stream_sequence + 1);
            (info.num_pending + info.num_ack_pending as u64, lost)
        }
        // The first compensator creates the consumer, and begins with the oldest record.
        Err(error) if error.kind() == ConsumerInfoErrorKind::NotFound => {
            let counted = records(&mut stream, config.subject.as_deref()).await;
            (counted.map_err(|error| format!("the stream `{of}`: {error}"))?, 0)
        }
        Err(error) => return Err(format!("the consumer `{name}`: {error}")),
    };
    let held = is_held(client, of, name).await?;
    Ok(IntakeLook { lag, lost, reader: held.then(|| format!("a compensator, through the consumer {name}")) })
}

/// Number of records in a stream, or with a subject.
async fn records(stream: &mut Stream, subject: Option<&str>) -> Result<u64, InfoError> {
    let Some(subject) = subject else { return Ok(stream.info().await?.state.messages) };
    let of_subjects = stream.info_with_subjects(subject).await?;
    of_subjects.try_fold(0, async |sum, (_, count)| Ok(sum + count as u64)).await
}
