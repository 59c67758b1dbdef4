//! The identity provider: its description, its keys, and the exchange of a code for an ID token.
//!
//! Every call has a deadline, every answer a bound, and no redirect is followed. Description and keys are kept.

use super::config::sound_url;
use super::id_token::chosen;
use super::refusal::{LoginRefusal, Reason};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use delayq_service::brokers::http_words;
use jsonwebtoken::jwk::Jwk;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use reqwest::{Client, RequestBuilder, StatusCode, Url};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Mutex;

/// Deadline of a call.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);
/// Maximum bytes of an answer.
const MAX_ANSWER: usize = 512 * 1024;
/// The description and the keys are used for this time.
const FRESH: Duration = Duration::from_hours(1);
/// Minimum time between two reads of the keys, and so of logins with unknown keys.
const KEYS_EVERY: Duration = Duration::from_mins(1);
/// A failure is repeated for this time without another call, for the logins that waited.
const FAILED: Duration = Duration::from_secs(2);

pub(super) struct Provider {
    http: Client,
    issuer: String,
    known: Mutex<ProviderKnown>,
}

#[derive(Default)]
struct ProviderKnown {
    description: Option<(Arc<Description>, Instant)>,
    keys: Option<(Vec<Jwk>, Instant)>,
    failed: Option<(LoginRefusal, Instant)>,
}

/// OpenID Connect Discovery 1.0, as far as a login needs it.
#[derive(Debug, Deserialize)]
pub(super) struct Description {
    issuer: String,
    pub(super) authorization_endpoint: String,
    token_endpoint: String,
    jwks_uri: String,
    #[serde(default)]
    token_endpoint_auth_methods_supported: Option<Vec<String>>,
}

#[derive(Deserialize)]
struct KeySet {
    keys: Vec<Value>,
}

#[derive(Deserialize)]
struct Exchanged {
    id_token: String,
}

/// The parameters of an exchange.
pub(super) struct Exchange<'a> {
    pub(super) code: &'a str,
    pub(super) verifier: &'a str,
    pub(super) redirect: &'a str,
    pub(super) client_id: &'a str,
    /// `None`: a public client.
    pub(super) secret: Option<&'a str>,
}

// === impl Provider ===

impl Provider {
    pub(super) fn new(http: Client, issuer: String) -> Self {
        Self { http, issuer, known: Mutex::default() }
    }

    pub(super) async fn description(&self) -> Result<Arc<Description>, LoginRefusal> {
        let mut known = self.known.lock().await;
        self.described(&mut known).await
    }

    /// The key that signed a token. For an unknown key, the keys are read again, at most once a minute.
    pub(super) async fn key(&self, kid: Option<&str>) -> Result<Jwk, LoginRefusal> {
        let mut known = self.known.lock().await;
        let description = self.described(&mut known).await?;
        let is_fresh = |(keys, read_at): &(Vec<Jwk>, Instant)| {
            read_at.elapsed() < KEYS_EVERY || (read_at.elapsed() < FRESH && chosen(keys, kid).is_some())
        };
        if !known.keys.as_ref().is_some_and(is_fresh) {
            let keys: KeySet = self.read(&description.jwks_uri).await?;
            // A key of an unknown form is left out, so that the other keys stay usable.
            let keys = keys.keys.into_iter().filter_map(|key| serde_json::from_value(key).ok()).collect();
            known.keys = Some((keys, Instant::now()));
        }
        let keys = known.keys.as_ref().map(|(keys, _)| keys.as_slice()).unwrap_or_default();
        let unknown = || {
            LoginRefusal::new(Reason::Key, format!("no key of {} signed the ID token", description.jwks_uri))
        };
        chosen(keys, kid).cloned().ok_or_else(unknown)
    }

    /// Returns the ID token.
    pub(super) async fn exchange(&self, exchange: Exchange<'_>) -> Result<String, LoginRefusal> {
        let description = self.description().await?;
        let Exchange { code, verifier, redirect, client_id, secret } = exchange;
        let mut form = vec![
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", redirect),
            ("code_verifier", verifier),
        ];
        let mut request = self.http.post(&description.token_endpoint);
        match secret {
            Some(secret) if description.takes_basic() => {
                request = request.header(AUTHORIZATION, basic(client_id, secret));
            }
            Some(secret) => form.extend([("client_id", client_id), ("client_secret", secret)]),
            None => form.push(("client_id", client_id)),
        }
        let body = form.iter().map(|(name, value)| format!("{name}={}", encoded(value)));
        let body = body.collect::<Vec<_>>().join("&");
        let request = request.header(CONTENT_TYPE, "application/x-www-form-urlencoded").body(body);
        let (status, bytes) = answered(request).await?;
        if status.is_success() {
            return Ok(parsed::<Exchanged>(&bytes)?.id_token);
        }
        let answer: Value = serde_json::from_slice(&bytes).unwrap_or_default();
        let word = answer["error"]
            .as_str()
            .filter(|word| word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'));
        let reason = match word {
            Some("invalid_client" | "unauthorized_client") => Reason::Client,
            Some("invalid_grant") => Reason::Code,
            _ => Reason::Faulty,
        };
        let word = word.map(|word| format!(": {word}")).unwrap_or_default();
        Err(LoginRefusal::new(reason, format!("the token endpoint answered {status}{word}")))
    }

    async fn described(&self, known: &mut ProviderKnown) -> Result<Arc<Description>, LoginRefusal> {
        if let Some((description, read_at)) = &known.description
            && read_at.elapsed() < FRESH
        {
            return Ok(Arc::clone(description));
        }
        if let Some((refusal, at)) = &known.failed
            && at.elapsed() < FAILED
        {
            return Err(refusal.clone());
        }
        match self.discover().await {
            Ok(description) => {
                let description = Arc::new(description);
                *known = ProviderKnown {
                    description: Some((Arc::clone(&description), Instant::now())),
                    ..ProviderKnown::default()
                };
                Ok(description)
            }
            Err(refusal) => {
                known.failed = Some((refusal.clone(), Instant::now()));
                Err(refusal)
            }
        }
    }

    async fn discover(&self) -> Result<Description, LoginRefusal> {
        let place = format!("{}/.well-known/openid-configuration", self.issuer.trim_end_matches('/'));
        let description: Description = self.read(&place).await?;
        if description.issuer != self.issuer {
            let detail =
                format!("the provider names itself {:?}, and not {:?}", description.issuer, self.issuer);
            return Err(LoginRefusal::new(Reason::Names, detail));
        }
        let Description { authorization_endpoint, token_endpoint, jwks_uri, .. } = &description;
        for (name, place) in [
            ("authorization_endpoint", authorization_endpoint),
            ("token_endpoint", token_endpoint),
            ("jwks_uri", jwks_uri),
        ] {
            let faulty = |why| LoginRefusal::new(Reason::Faulty, format!("{name} {place:?}: {why}"));
            sound_url(place).map_err(faulty)?;
        }
        Ok(description)
    }

    async fn read<T: DeserializeOwned>(&self, place: &str) -> Result<T, LoginRefusal> {
        let (status, bytes) = answered(self.http.get(place)).await?;
        match status {
            StatusCode::OK => parsed(&bytes),
            status => Err(LoginRefusal::new(Reason::Faulty, format!("{place} answered {status}"))),
        }
    }
}

// === impl Description ===

impl Description {
    /// Basic is the method of a provider that names none.
    fn takes_basic(&self) -> bool {
        let methods = self.token_endpoint_auth_methods_supported.as_ref();
        methods.is_none_or(|methods| {
            methods.iter().any(|method| method == "client_secret_basic")
                || !methods.iter().any(|method| method == "client_secret_post")
        })
    }

    /// The address for the browser.
    pub(super) fn authorization(&self, parameters: &[(&str, &str)]) -> Result<Url, LoginRefusal> {
        let mut url = Url::parse(&self.authorization_endpoint)
            .map_err(|error| LoginRefusal::new(Reason::Faulty, error.to_string()))?;
        url.query_pairs_mut().extend_pairs(parameters);
        Ok(url)
    }
}

async fn answered(request: RequestBuilder) -> Result<(StatusCode, Vec<u8>), LoginRefusal> {
    let silent = |error: reqwest::Error| LoginRefusal::new(Reason::Unreachable, http_words(&error));
    let mut answer = request.header(ACCEPT, "application/json").send().await.map_err(silent)?;
    let mut bytes = Vec::new();
    while let Some(chunk) = answer.chunk().await.map_err(silent)? {
        if bytes.len() + chunk.len() > MAX_ANSWER {
            let detail = format!("{} answered more than {MAX_ANSWER} bytes", answer.url());
            return Err(LoginRefusal::new(Reason::Faulty, detail));
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok((answer.status(), bytes))
}

/// The error names no value: an answer may hold tokens.
fn parsed<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, LoginRefusal> {
    serde_json::from_slice(bytes).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        let detail = format!("the answer is not the expected JSON at line {line}, column {column}");
        LoginRefusal::new(Reason::Faulty, detail)
    })
}

/// Both are form-encoded first (RFC 6749, 2.3.1).
fn basic(client_id: &str, secret: &str) -> String {
    format!("Basic {}", STANDARD.encode(format!("{}:{}", encoded(client_id), encoded(secret))))
}

fn encoded(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_and_a_password_are_encoded_before_they_are_joined() {
        assert_eq!(basic("a:b", "c d"), format!("Basic {}", STANDARD.encode("a%3Ab:c%20d")));
    }

    #[test]
    fn a_faulty_answer_is_not_repeated() {
        let refusal = parsed::<Exchanged>(br#"{"id_token": 5, "access_token": "hunter2"}"#).err().unwrap();
        assert_eq!(refusal.reason, Reason::Faulty);
        assert!(!refusal.detail.contains("hunter2") && !refusal.detail.contains('5'), "{refusal:?}");
    }
}
