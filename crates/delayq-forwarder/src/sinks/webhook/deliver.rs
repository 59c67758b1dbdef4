//! Posting: delivered is a status of 2xx, read to its end.

use super::{WebhookConfig, check, encode};
use crate::{Blame, CheckError, Outcome, Parcel, Sink, clock};
use async_trait::async_trait;
use futures_util::future::join_all;
use reqwest::{Certificate, Client, Response, StatusCode, header::RETRY_AFTER, redirect::Policy};
use secrecy::ExposeSecret;
use std::{sync::OnceLock, time::Duration};
use tokio::sync::Semaphore;

/// How much of an answer's body is quoted as a reason.
const QUOTED_BYTES: usize = 200;
const MOST_REDIRECTS: usize = 5;

/// An endpoint.
pub(crate) struct WebhookSink {
    config: WebhookConfig,
    client: Client,
    patience: Duration,
    /// One for each request at a time, over all calls.
    free: Semaphore,
}

// === impl WebhookSink ===

impl WebhookSink {
    pub(crate) fn new(config: WebhookConfig, deadline: Duration) -> Result<Self, String> {
        let patience = deadline.mul_f64(0.8);
        let mut builder = Client::builder()
            .user_agent(concat!("delayq-forwarder/", env!("CARGO_PKG_VERSION")))
            .no_proxy()
            .connect_timeout(patience / 2)
            .timeout(patience)
            .tcp_nodelay(true)
            .pool_max_idle_per_host(usize::from(config.connections))
            .redirect(redirects(config.follow_redirects));
        if let Some(path) = &config.ca {
            let pem = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
            let ca = Certificate::from_pem(&pem).map_err(|error| format!("{}: {error}", path.display()))?;
            builder = builder.tls_certs_only([ca]);
        }
        let client = builder.build().map_err(|error| error.to_string())?;
        let free = Semaphore::new(usize::from(config.connections));
        Ok(Self { config, client, patience, free })
    }

    /// Posts when there is a connection for it, unless the endpoint has failed another parcel of the call by then: so a
    /// dead endpoint costs one time of waiting, not one for each parcel.
    async fn post_unless(&self, parcel: &Parcel, first_failure: &OnceLock<Outcome>) -> Outcome {
        let _free = self.free.acquire().await.expect("the semaphore is never closed");
        if let Some(outcome) = first_failure.get() {
            return outcome.clone();
        }
        let outcome = self.post(parcel).await;
        if matches!(outcome, Outcome::Unavailable { blame: Blame::Destination, .. }) {
            let _ = first_failure.set(outcome.clone());
        }
        outcome
    }

    async fn post(&self, parcel: &Parcel) -> Outcome {
        let (url, headers) =
            match (encode::url(&self.config.url, &parcel.destination), encode::headers(parcel)) {
                (Ok(url), Ok(headers)) => (url, headers),
                (Err(reason), _) | (_, Err(reason)) => return Outcome::rejected(reason),
            };
        let mut request = self.client.post(url).headers(headers).body(parcel.body.clone());
        if let Some(secret) = &self.config.secret {
            match secret.reveal() {
                Err(why) => return Outcome::down(why),
                Ok(secret) => {
                    let key = secret.expose_secret().as_bytes();
                    let signature = encode::signature(key, clock::unix_secs(), &parcel.body);
                    request = request.header("delayq-signature", signature);
                }
            }
        }
        if let Some(bearer) = &self.config.bearer {
            match bearer.reveal() {
                Err(why) => return Outcome::down(why),
                Ok(bearer) => request = request.bearer_auth(bearer.expose_secret()),
            }
        }
        match request.send().await {
            Err(error) => unanswered(&error),
            Ok(response) => outcome(response).await,
        }
    }
}

#[async_trait]
impl Sink for WebhookSink {
    fn kind(&self) -> &'static str {
        "webhook"
    }

    async fn check(&self, destination: Option<&str>) -> Result<Vec<String>, CheckError> {
        let warnings = check::check(&self.config.url, destination, self.config.secret.is_some())?;
        // A request that changes nothing: whatever its status, somebody is there.
        let asked = self.client.head(&self.config.url).timeout(self.patience).send().await;
        asked.map_err(|error| CheckError::Unreachable(whole(&error)))?;
        Ok(warnings)
    }

    async fn deliver(&self, parcels: &[Parcel]) -> Vec<Outcome> {
        let first_failure = OnceLock::new();
        join_all(parcels.iter().map(|parcel| self.post_unless(parcel, &first_failure))).await
    }

    async fn close(&self) -> Result<(), String> {
        Ok(())
    }
}

/// Only within one host, so that no answer can lead into a private network.
fn redirects(follow: bool) -> Policy {
    if !follow {
        return Policy::none();
    }
    Policy::custom(|attempt| {
        let first = attempt.previous().first().map(reqwest::Url::origin);
        if first.is_some_and(|first| first == attempt.url().origin())
            && attempt.previous().len() <= MOST_REDIRECTS
        {
            attempt.follow()
        } else {
            attempt.stop()
        }
    })
}

fn unanswered(error: &reqwest::Error) -> Outcome {
    let reason = whole(error);
    if error.is_builder() { Outcome::rejected(reason) } else { Outcome::down(reason) }
}

/// An error with what caused it: reqwest says only the outermost.
fn whole(error: &reqwest::Error) -> String {
    let (mut text, mut cause) = (error.to_string(), std::error::Error::source(error));
    while let Some(inner) = cause {
        text = format!("{text}: {inner}");
        cause = inner.source();
    }
    text
}

/// What an answer means.
async fn outcome(mut response: Response) -> Outcome {
    let status = response.status();
    let retry_after = retry_after(&response);
    let mut quoted = Vec::new();
    // Read to its end, so that the connection can be used again; what is too long is cut off with its connection.
    loop {
        match response.chunk().await {
            Ok(Some(chunk)) if quoted.len() < 64 * 1024 => quoted.extend_from_slice(&chunk),
            Ok(_) => break,
            Err(error) if status.is_success() => return unanswered(&error),
            Err(_) => break,
        }
    }
    if status.is_success() {
        return Outcome::Delivered;
    }
    let end = quoted.len().min(QUOTED_BYTES);
    let reason =
        format!("{status}: {}", String::from_utf8_lossy(&quoted[..end]).replace(char::is_control, " "));
    match blame(status) {
        None => Outcome::Rejected { reason },
        Some(blame) => Outcome::Unavailable { reason, retry_after, blame },
    }
}

/// Whose fault a status is; `None`: it will never be another.
fn blame(status: StatusCode) -> Option<Blame> {
    match status.as_u16() {
        429 | 502 | 503 | 504 => Some(Blame::Destination),
        // Of the endpoint or of the login: somebody can mend it.
        300..=399 | 401 | 403 | 404 | 405 | 407 | 408 | 409 | 423 | 425 | 500..=599 => Some(Blame::Unclear),
        _ => None,
    }
}

/// Seconds; the form with a date is not used by those who ask for a rest, and counts as none.
fn retry_after(response: &Response) -> Option<Duration> {
    let text = response.headers().get(RETRY_AFTER)?.to_str().ok()?;
    text.trim().parse().ok().map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_says_whose_fault_it_is() {
        for (status, expected) in [
            (400, None),
            (401, Some(Blame::Unclear)),
            (404, Some(Blame::Unclear)),
            (408, Some(Blame::Unclear)),
            (410, None),
            (413, None),
            (422, None),
            (429, Some(Blame::Destination)),
            (301, Some(Blame::Unclear)),
            (500, Some(Blame::Unclear)),
            (503, Some(Blame::Destination)),
        ] {
            assert_eq!(blame(StatusCode::from_u16(status).unwrap()), expected, "{status}");
        }
    }
}
