//! Sessions of the page: a signed cookie instead of a token, which no script in the browser can read.
//!
//! ```text
//! cookie = END (s since the epoch) . HASH of the token (hex) . base64url(HMAC-SHA-256 of both)
//! ```
//! The key is derived from that of receipts, so every gateway of a deployment knows the session, and none keeps any. A
//! session ends when the line of its token is removed.

use crate::origin;
use crate::problem::{Kind, Problem};
use crate::receipts::{Receipts, Signer, random};
use crate::rights::{Right, Rights};
use crate::tenant::Tenant;
use crate::token::{Hash, Token};
use crate::tokens::Tokens;
use axum::http::{HeaderMap, header};
use delayq::{Error, Fate, UnixMillis};
use delayq_service::host_now;
use serde_json::json;
use sha2::{Digest as _, Sha256};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

const LIFE: Duration = Duration::from_hours(8);
const CODE_LIFE: Duration = Duration::from_mins(10);
const PURPOSE: &str = "delayq sessions";
/// The start of the cookie's name. Browsers send a cookie to every port of a host: the port is the end of the name, so that two
/// gateways of a host do not overwrite each other's cookie.
const COOKIE: &str = "delayq_session";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Caller {
    /// The token's name; `None`: no token is needed.
    pub(crate) name: Option<String>,
    pub(crate) rights: Rights,
    /// `None`: the caller is limited to no tenant.
    pub(crate) tenant: Option<Tenant>,
    /// `None`: the request carries no cookie.
    pub(crate) ends: Option<UnixMillis>,
}

/// Clones share the state.
#[derive(Clone)]
pub(crate) struct Sessions {
    tokens: Tokens,
    receipts: Receipts,
    code: Arc<Mutex<Option<Code>>>,
}

struct Code {
    hash: Hash,
    token: Hash,
    until: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NoSession {
    Expired,
    /// The token's line was removed.
    Removed,
    /// The signature is wrong: the key has changed, or the cookie is forged.
    Unknown,
    /// The code of a link was used before, or is too old.
    Used,
}

// === impl Caller ===

impl Caller {
    /// A caller that no check has let through.
    pub(crate) const NOBODY: Self = Self { name: None, rights: Rights::NONE, tenant: None, ends: None };

    pub(crate) const fn anybody() -> Self {
        Self { name: None, rights: Rights::EVERY, tenant: None, ends: None }
    }

    pub(crate) fn of(token: Token) -> Self {
        Self { name: Some(token.name), rights: token.rights, tenant: token.tenant, ends: None }
    }

    /// Refuses a caller without this right, which this route or parameter needs.
    pub(crate) fn must(&self, right: Right, what: &str) -> Result<(), Problem> {
        if self.rights.has(right) {
            return Ok(());
        }
        let why =
            format!("{what} needs `{}`; the token has {}", right.word(), self.rights.words().join(", "));
        Err(Problem::new(Kind::NoRight, why).fate(Fate::NotApplied))
    }
}

// === impl Sessions ===

impl Sessions {
    pub(crate) fn new(tokens: Tokens, receipts: Receipts) -> Self {
        Self { tokens, receipts, code: Arc::default() }
    }

    /// The caller by the session's cookie; `None`: there is no cookie.
    ///
    /// # Errors
    /// The session has ended, a web page of another origin made the browser send it, or Redis keeps the key and cannot be used.
    pub(crate) async fn caller(&self, headers: &HeaderMap) -> Result<Option<Caller>, Problem> {
        let Some(cookie) = cookie(headers) else { return Ok(None) };
        origin::check(headers, false)?;
        let (ends, hash) = read(&self.signer().await?, &cookie, now()).map_err(NoSession::problem)?;
        let token = self.tokens.of_hash(&hash).await?.ok_or_else(|| NoSession::Removed.problem())?;
        Ok(Some(Caller { ends: Some(ends), ..Caller::of(token) }))
    }

    /// Returns the caller, and the header that sets the cookie.
    pub(crate) async fn begin(&self, token: &str, headers: &HeaderMap) -> Result<(Caller, String), Problem> {
        let Some((hash, _)) = self.tokens.known(token).await? else {
            return Err(Problem::new(Kind::NoToken, "the token is unknown"));
        };
        self.begin_by_hash(&hash, headers).await
    }

    /// As [`Self::begin`], for the code of a link. A code is used up.
    ///
    /// # Errors
    /// The code was used or is too old; Redis keeps the key and cannot be used.
    pub(crate) async fn begin_once(
        &self,
        code: &str,
        headers: &HeaderMap,
    ) -> Result<(Caller, String), Problem> {
        // Without the key no session begins, and the code stays valid.
        self.signer().await?;
        let hash: Hash = Sha256::digest(code).into();
        let token = {
            let mut kept = self.code.lock().unwrap_or_else(PoisonError::into_inner);
            kept.take_if(|kept| kept.hash == hash).filter(|kept| Instant::now() < kept.until)
        };
        let token = token.ok_or_else(|| NoSession::Used.problem())?.token;
        self.begin_by_hash(&token, headers).await
    }

    /// A code that logs in once as the holder of this token. The code before ends.
    ///
    /// # Errors
    /// The system gives no random numbers.
    pub(crate) fn one_time_code(&self, token: &str) -> Result<String, Error> {
        let code = random()?;
        let (hash, token) = (Sha256::digest(&code).into(), Sha256::digest(token).into());
        let kept = Code { hash, token, until: Instant::now() + CODE_LIFE };
        *self.code.lock().unwrap_or_else(PoisonError::into_inner) = Some(kept);
        Ok(code)
    }

    async fn begin_by_hash(&self, hash: &Hash, headers: &HeaderMap) -> Result<(Caller, String), Problem> {
        let token = self.tokens.of_hash(hash).await?.ok_or_else(|| NoSession::Removed.problem())?;
        let ends = now() + LIFE.as_secs();
        let cookie = written(&self.signer().await?, ends, hash);
        let caller = Caller { ends: Some(UnixMillis::new(ends * 1000)), ..Caller::of(token) };
        Ok((caller, set_cookie(headers, &cookie, LIFE)))
    }

    async fn signer(&self) -> Result<Signer, Error> {
        Ok(self.receipts.signer().await?.of(PURPOSE))
    }
}

pub(crate) fn end_cookie(headers: &HeaderMap) -> String {
    set_cookie(headers, "", Duration::ZERO)
}

/// Only the page of this origin sends the cookie, no script reads the cookie, and after a page by TLS the browser sends the cookie
/// by TLS alone.
fn set_cookie(headers: &HeaderMap, value: &str, life: Duration) -> String {
    let origin = headers.get(header::ORIGIN).and_then(|origin| origin.to_str().ok()).unwrap_or_default();
    let secure = if origin.starts_with("https://") { "; Secure" } else { "" };
    let (name, life) = (name(headers), life.as_secs());
    format!("{name}={value}; Path=/; HttpOnly; SameSite=Strict; Max-Age={life}{secure}")
}

fn name(headers: &HeaderMap) -> String {
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let port = host.rsplit_once(':').map(|(_, port)| port);
    let port = port.filter(|port| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()));
    port.map_or_else(|| COOKIE.to_owned(), |port| format!("{COOKIE}_{port}"))
}

fn cookie(headers: &HeaderMap) -> Option<String> {
    let name = name(headers);
    let all = headers.get_all(header::COOKIE).into_iter().filter_map(|all| all.to_str().ok());
    let mut pairs = all.flat_map(|all| all.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(known, value)| *known == name && !value.is_empty()).map(|(_, value)| value.to_owned())
}

fn written(signer: &Signer, ends: u64, hash: &Hash) -> String {
    let signed = format!("{ends}.{}", hex::encode(hash));
    let tag = signer.tag(signed.as_bytes());
    format!("{signed}.{tag}")
}

/// Also the hash of the token.
fn read(signer: &Signer, cookie: &str, now: u64) -> Result<(UnixMillis, Hash), NoSession> {
    let parse = || {
        let (signed, tag) = cookie.rsplit_once('.')?;
        let (ends, hash) = signed.split_once('.')?;
        let hash = Hash::try_from(hex::decode(hash).ok()?).ok()?;
        let ends: u64 = ends.parse().ok()?;
        signer.is_tag(tag, signed.as_bytes()).then_some((ends, hash))
    };
    let (ends, hash) = parse().ok_or(NoSession::Unknown)?;
    if ends <= now { Err(NoSession::Expired) } else { Ok((UnixMillis::new(ends * 1000), hash)) }
}

/// Seconds since the epoch, by the clock of this host: the cookie is the browser's, and not a message of Redis.
fn now() -> u64 {
    host_now().get() / 1000
}

// === impl NoSession ===

impl NoSession {
    fn problem(self) -> Problem {
        let reason = match self {
            Self::Expired => "expired",
            Self::Removed => "removed",
            Self::Unknown => "unknown",
            Self::Used => "used",
        };
        Problem::outcome(Kind::SessionEnded, json!({ "outcome": "ended", "reason": reason }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    fn headers(pairs: &[(header::HeaderName, &'static str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.clone(), HeaderValue::from_static(value))).collect()
    }

    #[test]
    fn a_session_is_read_back_until_it_ends_and_no_other_is_taken() {
        let signer = Signer::new(b"key");
        let written = written(&signer, 100, &[7; 32]);
        assert_eq!(read(&signer, &written, 99), Ok((UnixMillis::new(100_000), [7; 32])));
        assert_eq!(read(&signer, &written, 100), Err(NoSession::Expired));
        assert_eq!(read(&Signer::new(b"kez"), &written, 99), Err(NoSession::Unknown));
        let later = written.replacen("100", "900", 1);
        let other = written.replacen("07", "08", 1);
        for forged in [&later, &other, "", ".", "..", "100.07.", &written[..written.len() - 1]] {
            assert_eq!(read(&signer, forged, 99), Err(NoSession::Unknown), "{forged}");
        }
    }

    #[test]
    fn a_signature_of_a_session_is_none_of_a_receipt() {
        let (signer, bytes) = (Signer::new(b"key"), b"bytes");
        assert!(signer.is_tag(&signer.tag(bytes), bytes));
        assert!(!signer.is_tag(&signer.of(PURPOSE).tag(bytes), bytes));
    }

    #[test]
    fn each_port_of_a_host_has_its_own_cookie_which_is_secure_behind_tls() {
        let plain = headers(&[(header::HOST, "127.0.0.1:9480"), (header::ORIGIN, "http://127.0.0.1:9480")]);
        let set = set_cookie(&plain, "x", LIFE);
        assert_eq!(set, "delayq_session_9480=x; Path=/; HttpOnly; SameSite=Strict; Max-Age=28800");
        let tls = headers(&[(header::HOST, "delayq.example"), (header::ORIGIN, "https://delayq.example")]);
        assert!(set_cookie(&tls, "x", LIFE).starts_with("delayq_session=x; "));
        assert!(set_cookie(&tls, "x", LIFE).ends_with("; Secure"));
        let sent = "a=b; delayq_session=; delayq_session_9480=1.2.3; delayq_session_1=4";
        let asked = headers(&[(header::HOST, "[::1]:9480"), (header::COOKIE, sent)]);
        assert_eq!(cookie(&asked).as_deref(), Some("1.2.3"));
        let asked = headers(&[(header::HOST, "[::1]"), (header::COOKIE, sent)]);
        assert_eq!(cookie(&asked), None);
    }
}
