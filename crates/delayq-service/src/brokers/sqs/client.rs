//! Calls of the protocol in JSON.

use super::SqsAccess;
use super::signing::Signing;
use crate::brokers::{Outcome, http_client, unanswered};
use http::Uri;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Maximum concurrent calls of a client.
pub(super) const CONNECTIONS: u16 = 16;

/// A server.
pub struct SqsClient {
    http: reqwest::Client,
    server: Uri,
    shared: Mutex<SqsState>,
    /// Longest time of a call.
    pub(super) patience: Duration,
}

#[derive(Default)]
struct SqsState {
    signing: Option<Arc<Signing>>,
    /// The URLs of queues by name.
    urls: HashMap<String, String>,
}

/// Why a call failed.
#[derive(Clone, Debug)]
pub struct SqsFault {
    /// The server's code; empty without an answer.
    pub code: String,
    /// The outcome of the messages of the call.
    pub outcome: Outcome,
}

#[derive(Deserialize)]
struct SqsRefusal {
    #[serde(rename = "__type")]
    code: String,
    #[serde(alias = "Message", default)]
    message: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Located {
    queue_url: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Described {
    attributes: HashMap<String, String>,
}

// === impl SqsClient ===

impl SqsClient {
    /// Connects nothing; a call takes at most `patience`.
    ///
    /// # Errors
    /// A certificate cannot be used.
    pub fn new(access: &SqsAccess, name: &str, patience: Duration) -> Result<Self, String> {
        let http = http_client(name, &access.files, patience, CONNECTIONS)?;
        let server = format!("{}/", access.server()).parse().map_err(|error| format!("{error}"))?;
        Ok(Self { http, server, shared: Mutex::default(), patience })
    }

    /// Calls an action.
    ///
    /// # Errors
    /// The server refused the call, or did not answer.
    pub async fn call<T: DeserializeOwned>(
        &self,
        access: &SqsAccess,
        action: &str,
        body: &Value,
    ) -> Result<T, SqsFault> {
        let body = body.to_string();
        let signing = self.signing(access).map_err(|why| SqsFault::of(Outcome::down(why)))?;
        let signed = signing.head(&self.server, action, body.as_bytes()).await;
        let head = signed.inspect_err(|_| self.shared().signing = None);
        let head = head.map_err(|why| SqsFault::of(Outcome::down(why)))?;
        let request = http::Request::from_parts(head, body);
        let request =
            reqwest::Request::try_from(request).map_err(|error| SqsFault::of(unanswered(&error)))?;
        let answered = async {
            let answer = self.http.execute(request).await?;
            Ok((answer.status(), answer.bytes().await?))
        };
        let (status, answer) =
            answered.await.map_err(|error| SqsFault::of(self.explained(access, &error)))?;
        if status.is_success() {
            return serde_json::from_slice(&answer).map_err(|error| {
                SqsFault::of(Outcome::silent(format!("an answer that is not SQS's: {error}")))
            });
        }
        let fault = match serde_json::from_slice::<SqsRefusal>(&answer) {
            Ok(refusal) => SqsFault::refused(&refusal.code, &refusal.message),
            Err(_) => SqsFault::of(Outcome::down(status.to_string())),
        };
        if fault.is_login() {
            self.shared().signing = None;
        }
        Err(fault)
    }

    fn explained(&self, access: &SqsAccess, error: &reqwest::Error) -> Outcome {
        match unanswered(error) {
            Outcome::Unavailable { reason, retry_after, blame } => {
                let reason = access.files.explain(access.tls_off(), reason);
                Outcome::Unavailable { reason, retry_after, blame }
            }
            outcome => outcome,
        }
    }

    /// Checks that the server answers, and takes the credentials.
    ///
    /// # Errors
    /// The server does not answer, or refuses the credentials.
    pub async fn answers(&self, access: &SqsAccess) -> Result<(), SqsFault> {
        let asked = json!({ "QueueName": "delayq-check" });
        match self.call::<Located>(access, "GetQueueUrl", &asked).await {
            Err(fault) if !fault.is_missing() && !fault.is_denied() => Err(fault),
            _ => Ok(()),
        }
    }

    /// The URL of a queue.
    ///
    /// # Errors
    /// The queue does not exist, or may not be used.
    pub async fn url(&self, access: &SqsAccess, queue: &str) -> Result<String, SqsFault> {
        if let Some(url) = self.shared().urls.get(queue) {
            return Ok(url.clone());
        }
        let asked = json!({ "QueueName": queue });
        let found: Result<Located, _> = self.call(access, "GetQueueUrl", &asked).await;
        let Located { queue_url } = found.map_err(|fault| fault.about(queue))?;
        self.shared().urls.insert(queue.to_owned(), queue_url.clone());
        Ok(queue_url)
    }

    /// The attributes of a queue.
    ///
    /// # Errors
    /// The queue does not exist, or may not be seen.
    pub async fn attributes(
        &self,
        access: &SqsAccess,
        queue: &str,
    ) -> Result<HashMap<String, String>, SqsFault> {
        let asked = json!({ "QueueUrl": self.url(access, queue).await?, "AttributeNames": ["All"] });
        let found: Result<Described, _> = self.call(access, "GetQueueAttributes", &asked).await;
        found.map(|found| found.attributes).map_err(|fault| self.lost(queue, fault))
    }

    /// The fault of a call about a queue. A queue that is gone may come back with another URL.
    pub fn lost(&self, queue: &str, fault: SqsFault) -> SqsFault {
        if fault.is_missing() {
            self.shared().urls.remove(queue);
        }
        fault.about(queue)
    }

    fn signing(&self, access: &SqsAccess) -> Result<Arc<Signing>, String> {
        let mut shared = self.shared();
        if let Some(signing) = &shared.signing {
            return Ok(signing.clone());
        }
        let signing = Arc::new(Signing::new(access, &self.http)?);
        shared.signing = Some(signing.clone());
        Ok(signing)
    }

    fn shared(&self) -> MutexGuard<'_, SqsState> {
        // Each change is one assignment, insert or remove.
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl SqsFault ===

impl SqsFault {
    const fn of(outcome: Outcome) -> Self {
        Self { code: String::new(), outcome }
    }

    /// The fault of a call that could not be made.
    #[must_use]
    pub fn unsent(why: String) -> Self {
        Self::of(Outcome::unsent(why))
    }

    /// The fault of a refusal, by its code.
    pub(super) fn refused(code: &str, message: &str) -> Self {
        let code = code.rsplit(['#', '.']).next().unwrap_or(code).to_owned();
        let reason = format!("{code}: {message}");
        let outcome = match code.as_str() {
            "BatchRequestTooLong"
            | "InvalidMessageContents"
            | "InvalidParameterValue"
            | "MissingParameter"
            | "InvalidAttributeValue" => Outcome::Rejected { reason },
            "QueueDoesNotExist"
            | "NonExistentQueue"
            | "AccessDenied"
            | "AccessDeniedException"
            | "KmsAccessDenied" => Outcome::failed(reason),
            _ => Outcome::down(reason),
        };
        Self { code, outcome }
    }

    /// True if the queue does not exist.
    #[must_use]
    pub fn is_missing(&self) -> bool {
        matches!(self.code.as_str(), "QueueDoesNotExist" | "NonExistentQueue")
    }

    /// True if this user may not make the call.
    #[must_use]
    pub fn is_denied(&self) -> bool {
        matches!(self.code.as_str(), "AccessDenied" | "AccessDeniedException")
    }

    /// True if other credentials may help.
    fn is_login(&self) -> bool {
        [
            "InvalidClientTokenId",
            "UnrecognizedClientException",
            "SignatureDoesNotMatch",
            "InvalidSignatureException",
            "ExpiredToken",
            "ExpiredTokenException",
            "InvalidAccessKeyId",
        ]
        .contains(&self.code.as_str())
    }

    fn about(mut self, queue: &str) -> Self {
        if self.is_missing() {
            self.outcome = Outcome::failed(format!("the queue `{queue}` does not exist"));
        }
        self
    }
}

impl fmt::Display for SqsFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.outcome {
            Outcome::Delivered => f.write_str("delivered"),
            Outcome::Rejected { reason } | Outcome::Unavailable { reason, .. } => f.write_str(reason),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::brokers::Blame;

    #[test]
    fn a_code_says_whose_fault_it_is() {
        for (code, expected) in [
            ("com.amazonaws.sqs#BatchRequestTooLong", None),
            ("com.amazonaws.sqs#QueueDoesNotExist", Some(Blame::Unclear)),
            ("AWS.SimpleQueueService.NonExistentQueue", Some(Blame::Unclear)),
            ("com.amazonaws.sqs#RequestThrottled", Some(Blame::Destination)),
            ("com.amazon.coral.service#UnrecognizedClientException", Some(Blame::Destination)),
        ] {
            let found = match SqsFault::refused(code, "why").outcome {
                Outcome::Unavailable { blame, .. } => Some(blame),
                _ => None,
            };
            assert_eq!(found, expected, "{code}");
        }
    }
}
