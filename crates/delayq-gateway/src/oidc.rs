//! Logins of people through an OpenID Connect provider: the authorization code flow with PKCE.
//!
//! ```text
//!  page ─► begin ─► provider ─► browser back at /oidc ─► code ─► ID token ─► groups ─► rights ─► session
//!          (state, nonce, verifier in a cookie)          (exchanged, verified)
//! ```
//! The browser always comes back to the page's root: no address in a request says where to go.

mod attempt;
mod config;
mod groups;
mod id_token;
mod provider;
mod refusal;
mod signatures;

pub(crate) use attempt::LOGIN_LIFE;
pub use config::{GroupConfig, OidcConfig};
pub(crate) use groups::Groups;
pub(crate) use refusal::{LoginRefusal, Reason};

use crate::codes::OIDC;
use crate::problem::Problem;
use crate::receipts::{Receipts, Signer};
use attempt::Attempt;
use delayq::Error;
use delayq_service::brokers::http_client;
use delayq_service::config::Secret;
use delayq_service::{Fault, host_now};
use id_token::{Expected, key_of, verified};
use provider::{Exchange, PATIENCE, Provider};
use secrecy::{ExposeSecret as _, SecretString};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::{Semaphore, SemaphorePermit};

/// The path of the redirect URI.
pub(crate) const RETURN: &str = "/oidc";
const PURPOSE: &str = "delayq logins";
/// Maximum logins at a time. Further logins are refused without a call.
const AT_ONCE: usize = 16;

/// Clones share the state.
#[derive(Clone)]
pub(crate) struct Oidc(Arc<OidcParts>);

struct OidcParts {
    config: OidcConfig,
    provider: Provider,
    groups: Groups,
    turns: Semaphore,
}

/// A login that has begun.
pub(crate) struct Begun {
    /// The address at the provider.
    pub(crate) url: String,
    /// The cookie for the way back.
    pub(crate) cookie: String,
}

/// A person, identified by the provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Person {
    pub(crate) name: String,
    /// The groups with rights.
    pub(crate) groups: Vec<String>,
    /// The name of the login, which counts once.
    pub(crate) state: String,
}

// === impl Oidc ===

impl Oidc {
    /// [`OIDC`]: the password, a certificate or a group cannot be used. The provider may be unavailable.
    pub(crate) fn new(config: &OidcConfig) -> Result<Self, Fault> {
        let fault = |why: String| Fault::new(&OIDC, why);
        if let Some(secret) = &config.client_secret {
            secret.reveal().map_err(|why| fault(format!("client_secret: {why}")))?;
        }
        let http = http_client("delayq-gateway", &config.files, PATIENCE, 2).map_err(fault)?;
        let read = |(name, group): (&String, &GroupConfig)| Ok((name.clone(), group.read()?));
        let groups = config.groups.iter().map(read).collect::<Result<BTreeMap<_, _>, String>>();
        signatures::install();
        Ok(Self(Arc::new(OidcParts {
            provider: Provider::new(http, config.issuer.clone()),
            groups: Groups::new(groups.map_err(fault)?),
            turns: Semaphore::new(AT_ONCE),
            config: config.clone(),
        })))
    }

    pub(crate) fn groups(&self) -> &Groups {
        &self.0.groups
    }

    /// For the page, which names the provider.
    pub(crate) fn issuer(&self) -> &str {
        &self.0.config.issuer
    }

    /// True if browsers reach the page by TLS.
    pub(crate) fn is_secure(&self) -> bool {
        self.0.config.url.starts_with("https:")
    }

    /// Begins a login for a page under the host `host`.
    ///
    /// # Errors
    /// The provider cannot be used, or would send the browser to another address than this page's.
    pub(crate) async fn begin(&self, host: &str, receipts: &Receipts) -> Result<Begun, Problem> {
        let config = &self.0.config;
        let url = config.url.trim_end_matches('/');
        if url.split_once("://").map(|(_, of)| of) != Some(host) {
            return Err(LoginRefusal::new(Reason::Address, format!("open the page as {url}")).into());
        }
        let signer = signer(receipts).await?;
        let _turn = self.turn()?;
        let attempt = Attempt::new(now())?;
        let description = self.0.provider.description().await?;
        let url = description.authorization(&[
            ("response_type", "code"),
            ("client_id", &config.client_id),
            ("redirect_uri", &self.redirect()),
            ("scope", &config.scopes.join(" ")),
            ("state", &attempt.state),
            ("nonce", &attempt.nonce),
            ("code_challenge", &attempt.challenge()),
            ("code_challenge_method", "S256"),
        ])?;
        Ok(Begun { url: url.into(), cookie: attempt.written(&signer) })
    }

    /// Ends a login: returns the person for the parameters that the browser brings from the provider.
    ///
    /// # Errors
    /// The login differs or is too old, the provider cannot be used, or its ID token is invalid.
    pub(crate) async fn end(
        &self,
        cookie: Option<&str>,
        answer: &[(String, String)],
        receipts: &Receipts,
    ) -> Result<Person, Problem> {
        let no_cookie = || LoginRefusal::new(Reason::Lost, "the browser sent no cookie of a login");
        let cookie = cookie.ok_or_else(no_cookie)?;
        let attempt = Attempt::read(&signer(receipts).await?, cookie, now())?;
        Ok(self.identified(attempt, answer).await?)
    }

    async fn identified(
        &self,
        attempt: Attempt,
        answer: &[(String, String)],
    ) -> Result<Person, LoginRefusal> {
        let config = &self.0.config;
        let text =
            |name: &str| answer.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str());
        if text("state") != Some(attempt.state.as_str()) {
            return Err(LoginRefusal::new(Reason::State, "the state is that of another login"));
        }
        if text("iss").is_some_and(|issuer| issuer != config.issuer) {
            return Err(LoginRefusal::new(Reason::Issuer, "another provider answered (iss)"));
        }
        let Some(code) = text("code") else {
            let word = text("error").unwrap_or("no code");
            let word: String =
                word.chars().filter(|letter| letter.is_ascii_graphic() || *letter == ' ').take(64).collect();
            return Err(LoginRefusal::new(Reason::Denied, format!("the provider answered: {word}")));
        };
        let _turn = self.turn()?;
        let secret = config.client_secret.as_ref().map(Secret::reveal).transpose();
        let secret =
            secret.map_err(|why| LoginRefusal::new(Reason::Client, format!("client_secret: {why}")))?;
        let exchange = Exchange {
            code,
            verifier: &attempt.verifier,
            redirect: &self.redirect(),
            client_id: &config.client_id,
            secret: secret.as_ref().map(SecretString::expose_secret),
        };
        let token = self.0.provider.exchange(exchange).await?;
        let key = self.0.provider.key(key_of(&token)?.as_deref()).await?;
        let expected = Expected {
            issuer: &config.issuer,
            client_id: &config.client_id,
            nonce: &attempt.nonce,
            groups_claim: &config.groups_claim,
        };
        let identified = verified(&token, &key, expected)?;
        let groups = self.0.groups.known(identified.groups);
        self.0.groups.rights(&groups)?;
        tracing::info!(name = identified.name, subject = identified.subject, ?groups, "a person logged in");
        Ok(Person { name: identified.name, groups, state: attempt.state })
    }

    fn redirect(&self) -> String {
        format!("{}{RETURN}", self.0.config.url.trim_end_matches('/'))
    }

    fn turn(&self) -> Result<SemaphorePermit<'_>, LoginRefusal> {
        let busy = |_| LoginRefusal::new(Reason::Busy, format!("{AT_ONCE} logins are under way"));
        self.0.turns.try_acquire().map_err(busy)
    }
}

async fn signer(receipts: &Receipts) -> Result<Signer, Error> {
    Ok(receipts.signer().await?.of(PURPOSE))
}

/// Seconds since the epoch, by the clock of this host: a cookie is the browser's, and not a message of Redis.
fn now() -> u64 {
    host_now().get() / 1000
}
