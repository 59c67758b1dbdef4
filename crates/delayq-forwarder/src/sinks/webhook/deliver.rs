//! Posting: a message is delivered once a complete 2xx answer was read.

use super::encode::{self, Login};
use super::url::url;
use super::{WebhookConfig, check, retry_after};
use crate::{CheckError, Parcel, Sink};
use async_trait::async_trait;
use delayq_service::brokers::{Blame, Outcome, Outcomes, http_client, http_words, unanswered};
use delayq_service::host_now;
use futures_util::future::join_all;
use reqwest::{Client, Method, Request, Response, StatusCode, Url};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};

/// Maximum bytes of an answer's body quoted as a reason.
const QUOTED_BYTES: usize = 200;

pub(crate) struct WebhookSink {
    config: WebhookConfig,
    url: Url,
    client: Client,
    /// Longest wait of a call's parcels for a turn.
    deadline: Duration,
    /// One permit per concurrent request, over all calls.
    free: Semaphore,
}

struct WebhookCall<'a> {
    login: Login,
    parcels: &'a [Parcel],
    outcomes: &'a Outcomes,
    until: Instant,
    next: AtomicUsize,
    failure: OnceLock<Outcome>,
}

// === impl WebhookSink ===

impl WebhookSink {
    pub(crate) fn new(config: WebhookConfig, deadline: Duration) -> Result<Self, String> {
        let url = Url::parse(&config.url).map_err(|error| format!("{}: {error}", config.url))?;
        let client =
            http_client("delayq-forwarder", &config.files, deadline.mul_f64(0.8), config.connections)?;
        let free = Semaphore::new(usize::from(config.connections));
        Ok(Self { config, url, client, deadline, free })
    }

    /// Posts unstarted parcels of a call, each when its turn comes. A parcel is not posted if its turn does
    /// not come in time or the endpoint has failed as a whole: a dead endpoint costs a single timeout per call.
    async fn post_in_turn(&self, call: &WebhookCall<'_>) {
        while Instant::now() < call.until && call.failure.get().is_none() {
            let Ok(free) = timeout_at(call.until, self.free.acquire()).await else { return };
            let index = call.next.fetch_add(1, Ordering::Relaxed);
            let Some(parcel) = call.parcels.get(index) else { return };
            let outcome = self.post(&call.login, parcel).await;
            drop(free);
            if let Outcome::Unavailable { blame: Blame::Destination | Blame::Silence, .. } = &outcome {
                let _ = call.failure.set(outcome.clone());
            }
            call.outcomes.put(index, outcome);
        }
    }

    fn not_posted(&self, failure: Option<&Outcome>) -> Outcome {
        match failure {
            Some(Outcome::Unavailable { reason, retry_after, blame: Blame::Destination }) => {
                let (reason, retry_after) = (reason.clone(), *retry_after);
                Outcome::Unavailable { reason, retry_after, blame: Blame::Destination }
            }
            Some(_) => Outcome::unsent("not posted: no reply to an earlier message"),
            None => Outcome::unsent(format!("not posted: no connection was free within {:?}", self.deadline)),
        }
    }

    async fn post(&self, login: &Login, parcel: &Parcel) -> Outcome {
        let (url, mut headers) = match (url(&self.url, &parcel.destination), encode::headers(parcel)) {
            (Ok(url), Ok(headers)) => (url, headers),
            (Err(reason), _) | (_, Err(reason)) => return Outcome::rejected(reason),
        };
        login.sign(&mut headers, unix_secs(), &parcel.body);
        let mut request = Request::new(Method::POST, url);
        *request.headers_mut() = headers;
        *request.body_mut() = Some(parcel.body.clone().into());
        match self.client.execute(request).await {
            Err(error) => unanswered(&error),
            Ok(response) => outcome(response).await,
        }
    }
}

#[async_trait]
impl Sink for WebhookSink {
    async fn check(&self, destination: Option<&str>) -> Result<Vec<String>, CheckError> {
        let warnings = check::check(&self.url, destination, self.config.secret.is_some())?;
        // A harmless request: any status shows that the endpoint answers, but a refused login applies to every message.
        let login = Login::read(&self.config).map_err(CheckError::Unreachable)?;
        let mut request = Request::new(Method::HEAD, self.url.clone());
        login.sign(request.headers_mut(), unix_secs(), &[]);
        let unreachable = |error| CheckError::Unreachable(self.config.explain(http_words(&error)));
        let answer = self.client.execute(request).await.map_err(unreachable)?;
        if matches!(answer.status(), StatusCode::UNAUTHORIZED | StatusCode::PROXY_AUTHENTICATION_REQUIRED) {
            return Err(CheckError::Unreachable(format!("{}: {}", self.config.url, answer.status())));
        }
        Ok(warnings)
    }

    async fn deliver(&self, parcels: &[Parcel], outcomes: &Arc<Outcomes>) {
        let login = match Login::read(&self.config) {
            Ok(login) => login,
            Err(why) => return outcomes.put_rest(&Outcome::down(why)),
        };
        let until = Instant::now() + self.deadline;
        let call = WebhookCall {
            login,
            parcels,
            outcomes,
            until,
            next: AtomicUsize::new(0),
            failure: OnceLock::new(),
        };
        let at_once = parcels.len().min(usize::from(self.config.connections));
        join_all((0..at_once).map(|_| self.post_in_turn(&call))).await;
        outcomes.put_rest(&self.not_posted(call.failure.get()));
    }
}

async fn outcome(mut response: Response) -> Outcome {
    let status = response.status();
    let retry_after = retry_after::wait(response.headers(), unix_secs());
    let mut quoted = Vec::new();
    // Reads to the end, so that the connection can be reused; an oversized body is cut off with its connection.
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

/// `None`: the status will never change.
fn blame(status: StatusCode) -> Option<Blame> {
    match status.as_u16() {
        // The endpoint is busy, or refuses the login, which concerns every message.
        401 | 407 | 429 | 502 | 503 | 504 => Some(Blame::Destination),
        // Either the endpoint (an operator can fix it) or this message.
        300..=399 | 403 | 404 | 405 | 408 | 409 | 423 | 425 | 500..=599 => Some(Blame::Unclear),
        _ => None,
    }
}

/// Receivers compare signatures with their clock.
fn unix_secs() -> u64 {
    host_now().get() / 1000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_says_whose_fault_it_is() {
        for (status, expected) in [
            (400, None),
            (401, Some(Blame::Destination)),
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
