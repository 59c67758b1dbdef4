//! Dead records: published to a subject of another stream, and acked by it.

use super::source::NatsTicket;
use crate::intake::source::Dead;
use async_nats::jetstream::Context;
use async_nats::{HeaderMap, HeaderName, HeaderValue};
use futures_util::future::try_join_all;
use std::str::FromStr;

/// Publishes them all, then waits for the acks.
pub(super) async fn publish(
    context: &Context,
    subject: &str,
    dead: &[Dead<'_, NatsTicket>],
) -> Result<(), String> {
    let failed = |error: String| format!("the dead subject `{subject}`: {error}");
    let mut acks = Vec::with_capacity(dead.len());
    for dead in dead {
        let headers = headers(dead).map_err(failed)?;
        let body = dead.record.body.clone().into();
        let sent = context.publish_with_headers(subject.to_owned(), headers, body).await;
        acks.push(sent.map_err(|error| failed(error.to_string()))?);
    }
    let acked = try_join_all(acks.into_iter().map(IntoFuture::into_future)).await;
    acked.map(drop).map_err(|error| failed(error.to_string()))
}

fn headers(dead: &Dead<'_, NatsTicket>) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    for (name, value) in dead.headers() {
        // A value has no line breaks: of a reason they are spaces.
        let value = String::from_utf8_lossy(&value).replace(['\r', '\n'], " ");
        let name = HeaderName::from_str(name).map_err(|error| error.to_string())?;
        headers.append(name, HeaderValue::from_str(&value).map_err(|error| error.to_string())?);
    }
    Ok(headers)
}
