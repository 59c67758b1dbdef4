//! Dead records: published to a subject of another stream, which acks.

use super::ticket::NatsTicket;
use crate::intake::broker::{Buried, Dead};
use async_nats::jetstream::Context;
use async_nats::jetstream::context::PublishAckFuture;
use async_nats::{HeaderMap, HeaderName, HeaderValue};
use futures_util::future::join_all;
use std::str::FromStr;

/// Publishes all records, then waits for the acks.
pub(super) async fn publish(context: &Context, subject: &str, dead: &[Dead<'_, NatsTicket>]) -> Vec<Buried> {
    let mut acks = Vec::with_capacity(dead.len());
    for dead in dead {
        acks.push(send(context, subject, dead).await);
    }
    let acked = acks.into_iter().map(async |sent: Result<PublishAckFuture, String>| {
        sent?.await.map(drop).map_err(|error| error.to_string())
    });
    let failed = |error| format!("the dead subject `{subject}`: {error}");
    join_all(acked).await.into_iter().map(|acked| acked.map_err(failed)).collect()
}

async fn send(
    context: &Context,
    subject: &str,
    dead: &Dead<'_, NatsTicket>,
) -> Result<PublishAckFuture, String> {
    let (headers, body) = (headers(dead)?, dead.record.body.clone().into());
    let sent = context.publish_with_headers(subject.to_owned(), headers, body).await;
    sent.map_err(|error| error.to_string())
}

fn headers(dead: &Dead<'_, NatsTicket>) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    for (name, value) in dead.headers() {
        // A value has no line breaks: in a reason, spaces take their place.
        let value = String::from_utf8_lossy(&value).replace(['\r', '\n'], " ");
        let name = HeaderName::from_str(name).map_err(|error| error.to_string())?;
        headers.append(name, HeaderValue::from_str(&value).map_err(|error| error.to_string())?);
    }
    Ok(headers)
}
