//! Dead records: published to a subject of another stream, which acks.

use super::PATIENCE;
use super::ticket::NatsTicket;
use crate::intake::broker::{Buried, Dead, buried};
use async_nats::{HeaderMap, HeaderName, HeaderValue};
use delayq_service::brokers::{Answers, NatsAnswer, NatsLetter, NatsPublisher, Outcome};
use std::pin::pin;
use std::str::FromStr;
use tokio::time::sleep;

/// Publishes all records, then waits for the acks.
pub(super) async fn publish(
    publisher: &NatsPublisher,
    subject: &str,
    dead: &[Dead<'_, NatsTicket>],
) -> Vec<Buried> {
    let outcomes = Answers::new(dead.len());
    let letter = |index: usize| {
        let dead: &Dead<'_, NatsTicket> = &dead[index];
        let headers = headers(dead).map_err(Outcome::rejected)?;
        Ok(NatsLetter { subject, headers, body: dead.record.body.clone().into() })
    };
    let answered = |index, answer| match answer {
        NatsAnswer::Outcome(outcome) => outcomes.put(index, outcome),
        NatsAnswer::Duplicate => outcomes.put(index, Outcome::Delivered),
    };
    publisher.publish(dead.len(), letter, pin!(sleep(PATIENCE)), answered).await;
    outcomes.put_rest(&publisher.silent(PATIENCE));
    buried(&outcomes, &format!("the dead subject `{subject}`"))
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
