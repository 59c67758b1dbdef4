//! Sessions of the page: a cookie instead of a token, which no script in the browser can read.
//!
//! ```text
//! browser: a random text    Redis: its SHA-256 ─► who, and the end
//! ```
//! A session ends half an hour after the last request, by a logout, or with all others of its holder. The rights are the present rights of the token or of the
//! groups.

use crate::oidc::{Groups, LOGIN_LIFE, LoginRefusal, Person, Reason};
use crate::origin;
use crate::problem::{Kind, Problem};
use crate::receipts::random;
use crate::rights::{Right, Rights};
use crate::tenant::Tenant;
use crate::token::{Hash, Token};
use crate::tokens::Tokens;
use axum::http::{HeaderMap, header};
use delayq::{Admin, Error, Fate, UnixMillis};
use delayq_service::host_now;
use serde::{Deserialize, Serialize};
use serde_json::json;
use sha2::{Digest as _, Sha256};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

const LIFE: Duration = Duration::from_hours(8);
/// A session without a request ends after this time.
const IDLE: Duration = Duration::from_mins(30);
const CODE_LIFE: Duration = Duration::from_mins(10);
/// The start of the cookie's name. Browsers send a cookie to every port of a host: the port is the end of the name, so that two
/// gateways of a host do not overwrite each other's cookie.
const COOKIE: &str = "delayq_session";
/// As [`COOKIE`], for the cookie of a login through the identity provider.
const LOGIN_COOKIE: &str = "delayq_login";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Caller {
    /// The name of the token or the person; `None`: no token is needed.
    pub(crate) name: Option<String>,
    pub(crate) rights: Rights,
    /// `None`: the caller is limited to no tenant.
    pub(crate) tenant: Option<Tenant>,
    /// `None`: the request carries no cookie.
    pub(crate) ends: Option<UnixMillis>,
    /// When the token ends; `None`: it has no end.
    pub(crate) until: Option<UnixMillis>,
    /// True if the identity provider named the caller.
    pub(crate) is_person: bool,
}

/// Clones share the state.
#[derive(Clone)]
pub(crate) struct Sessions {
    tokens: Tokens,
    admin: Admin,
    /// `None`: no identity provider is configured.
    groups: Option<Groups>,
    code: Arc<Mutex<Option<Code>>>,
}

/// A session, as stored in Redis.
#[derive(Debug, Serialize, Deserialize)]
struct Session {
    #[serde(flatten)]
    who: Who,
    ends_ms: u64,
    /// The era of the holder's sessions in which this one began; `None`: none of them was ended early.
    #[serde(default)]
    era: Option<String>,
}

/// The holder of sessions, by the name that the page and the log of actions show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SessionHolder {
    Token(String),
    Person(String),
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Who {
    /// The hash of a token, in hex.
    Token(String),
    Person {
        name: String,
        groups: Vec<String>,
    },
}

struct Code {
    hash: Hash,
    token: Hash,
    until: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NoSession {
    Expired,
    /// The token's line was removed, or no group of the person has rights any more.
    Removed,
    /// All sessions of the holder were ended.
    Ended,
    /// The session was idle too long or was ended, or the cookie is forged.
    Unknown,
    /// The code of a link was used before, or is too old.
    Used,
}

// === impl Caller ===

impl Caller {
    /// A caller that no check has let through.
    pub(crate) const NOBODY: Self =
        Self { name: None, rights: Rights::NONE, tenant: None, ends: None, until: None, is_person: false };

    pub(crate) const fn anybody() -> Self {
        Self { rights: Rights::EVERY, ..Self::NOBODY }
    }

    pub(crate) fn of(token: Token) -> Self {
        let Token { name, rights, tenant, until } = token;
        Self { name: Some(name), rights, tenant, until, ..Self::NOBODY }
    }

    /// Refuses a caller without this right, which this route or parameter needs.
    pub(crate) fn must(&self, right: Right, what: &str) -> Result<(), Problem> {
        if self.rights.has(right) {
            return Ok(());
        }
        let who = if self.is_person { "the person" } else { "the token" };
        let why = format!("{what} needs `{}`; {who} has {}", right.word(), self.rights.words().join(", "));
        Err(Problem::new(Kind::NoRight, why).fate(Fate::NotApplied))
    }
}

// === impl Sessions ===

impl Sessions {
    pub(crate) fn new(tokens: Tokens, admin: Admin, groups: Option<Groups>) -> Self {
        Self { tokens, admin, groups, code: Arc::default() }
    }

    /// The caller by the session's cookie; `None`: there is no cookie.
    ///
    /// # Errors
    /// The session has ended, a web page of another origin made the browser send it, or Redis cannot be used.
    pub(crate) async fn caller(&self, headers: &HeaderMap) -> Result<Option<Caller>, Problem> {
        let Some(cookie) = cookie(headers, COOKIE) else { return Ok(None) };
        origin::check(headers, false)?;
        let kept = self.admin.gateways().session(&name(&cookie), IDLE).await?;
        let kept = kept.and_then(|kept| serde_json::from_str::<Session>(&kept).ok());
        let session = kept.ok_or_else(|| NoSession::Unknown.problem())?;
        if session.ends_ms <= host_now().get() {
            return Err(NoSession::Expired.problem());
        }
        let caller = self.caller_of(&session).await?;
        if self.era(&SessionHolder::of(&caller)).await? != session.era {
            return Err(NoSession::Ended.problem());
        }
        Ok(Some(caller))
    }

    /// Returns the caller, and the header that sets the cookie.
    pub(crate) async fn begin(&self, token: &str, headers: &HeaderMap) -> Result<(Caller, String), Problem> {
        let Some((hash, _)) = self.tokens.known(token).await? else {
            return Err(Problem::new(Kind::NoToken, "the token is unknown"));
        };
        self.begin_for(Who::Token(hex::encode(hash)), headers, is_secure(headers)).await
    }

    /// As [`Self::begin`], for the code of a link. A code is used up.
    ///
    /// # Errors
    /// The code was used or is too old; Redis cannot be used.
    pub(crate) async fn begin_once(
        &self,
        code: &str,
        headers: &HeaderMap,
    ) -> Result<(Caller, String), Problem> {
        let hash: Hash = Sha256::digest(code).into();
        let token = self.kept_code(|kept| {
            let of_code = kept.as_ref().filter(|kept| kept.hash == hash && Instant::now() < kept.until);
            of_code.map(|kept| kept.token)
        });
        let token = token.ok_or_else(|| NoSession::Used.problem())?;
        let begun = self.begin_for(Who::Token(hex::encode(token)), headers, is_secure(headers)).await?;
        // Until a session has begun, the code stays valid. Of two requests at a time, the first gets the session.
        let is_mine = self.kept_code(|kept| kept.take_if(|kept| kept.hash == hash).is_some());
        if is_mine { Ok(begun) } else { Err(NoSession::Used.problem()) }
    }

    /// As [`Self::begin`], for a person. A login counts once.
    ///
    /// # Errors
    /// The login has ended before; Redis cannot be used.
    pub(crate) async fn begin_person(
        &self,
        person: Person,
        headers: &HeaderMap,
        is_secure: bool,
    ) -> Result<(Caller, String), Problem> {
        let Person { name, groups, state } = person;
        if !self.admin.gateways().new_session(&format!("login/{state}"), "", LOGIN_LIFE).await? {
            return Err(LoginRefusal::new(Reason::Replayed, "the login has ended before").into());
        }
        self.begin_for(Who::Person { name, groups }, headers, is_secure).await
    }

    /// Ends the session of the cookie in every browser that has the cookie; without a cookie, does nothing.
    pub(crate) async fn end(&self, headers: &HeaderMap) -> Result<(), Error> {
        match cookie(headers, COOKIE) {
            Some(cookie) => self.admin.gateways().end_session(&name(&cookie)).await,
            None => Ok(()),
        }
    }

    /// Ends every session of a holder, at each gateway.
    ///
    /// # Errors
    /// Redis cannot be used. Safe to repeat.
    pub(crate) async fn end_all(&self, holder: &SessionHolder) -> Result<(), Error> {
        self.admin.gateways().note(&holder.note(), &random()?).await
    }

    async fn era(&self, holder: &SessionHolder) -> Result<Option<String>, Error> {
        let [era] = self.admin.gateways().notes_of([holder.note().as_str()]).await?;
        Ok(era)
    }

    /// A code that logs in once as the holder of this token. The code before ends.
    ///
    /// # Errors
    /// The system gives no random numbers.
    pub(crate) fn one_time_code(&self, token: &str) -> Result<String, Error> {
        let code = random()?;
        let (hash, token) = (Sha256::digest(&code).into(), Sha256::digest(token).into());
        let new = Code { hash, token, until: Instant::now() + CODE_LIFE };
        self.kept_code(|kept| *kept = Some(new));
        Ok(code)
    }

    fn kept_code<T>(&self, of: impl FnOnce(&mut Option<Code>) -> T) -> T {
        of(&mut self.code.lock().unwrap_or_else(PoisonError::into_inner))
    }

    async fn begin_for(
        &self,
        who: Who,
        headers: &HeaderMap,
        is_secure: bool,
    ) -> Result<(Caller, String), Problem> {
        let ends_ms = host_now().get() + LIFE.as_secs() * 1000;
        let mut session = Session { who, ends_ms, era: None };
        let (caller, value) = (self.caller_of(&session).await?, random()?);
        session.era = self.era(&SessionHolder::of(&caller)).await?;
        let text = serde_json::to_string(&session).expect("a session is made of texts and numbers");
        self.admin.gateways().new_session(&name(&value), &text, IDLE).await?;
        let set = set_cookie(headers, (COOKIE, &value), LIFE, &CookieSent::to_own_pages(is_secure));
        Ok((caller, set))
    }

    async fn caller_of(&self, session: &Session) -> Result<Caller, Problem> {
        let removed = || NoSession::Removed.problem();
        let caller = match &session.who {
            Who::Token(hash) => {
                let hash = hex::decode(hash).ok().and_then(|hash| Hash::try_from(hash).ok());
                let token = self.tokens.of_hash(&hash.ok_or_else(removed)?).await?;
                Caller::of(token.ok_or_else(removed)?)
            }
            Who::Person { name, groups } => {
                let (rights, tenant) = match &self.groups {
                    Some(known) => known.rights(groups).map_err(|_| removed())?,
                    None => return Err(removed()),
                };
                Caller { name: Some(name.clone()), rights, tenant, is_person: true, ..Caller::NOBODY }
            }
        };
        Ok(Caller { ends: Some(UnixMillis::new(session.ends_ms)), ..caller })
    }
}

// === impl SessionHolder ===

impl SessionHolder {
    fn of(caller: &Caller) -> Self {
        let name = caller.name.clone().unwrap_or_default();
        if caller.is_person { Self::Person(name) } else { Self::Token(name) }
    }

    /// Of the era: a random text that is another one once the sessions have been ended, so that no clock decides.
    fn note(&self) -> String {
        match self {
            Self::Token(holder) => format!("sessions/token/{}", name(holder)),
            Self::Person(holder) => format!("sessions/person/{}", name(holder)),
        }
    }
}

/// The rules for sending a cookie.
struct CookieSent {
    /// `Strict`, or `Lax` for a cookie that has to come with a link of another site.
    same_site: &'static str,
    /// True: by TLS alone.
    is_secure: bool,
}

// === impl CookieSent ===

impl CookieSent {
    const fn to_own_pages(is_secure: bool) -> Self {
        Self { same_site: "Strict", is_secure }
    }

    const fn with_links(is_secure: bool) -> Self {
        Self { same_site: "Lax", is_secure }
    }
}

pub(crate) fn end_cookie(headers: &HeaderMap) -> String {
    set_cookie(headers, (COOKIE, ""), Duration::ZERO, &CookieSent::to_own_pages(is_secure(headers)))
}

/// The cookie of a login through the identity provider; without a value, its end. The provider's link has to bring the cookie.
pub(crate) fn login_cookie(headers: &HeaderMap, value: Option<&str>, is_secure: bool) -> String {
    let life = if value.is_some() { LOGIN_LIFE } else { Duration::ZERO };
    let named = (LOGIN_COOKIE, value.unwrap_or_default());
    set_cookie(headers, named, life, &CookieSent::with_links(is_secure))
}

pub(crate) fn login_of(headers: &HeaderMap) -> Option<String> {
    cookie(headers, LOGIN_COOKIE)
}

/// No script reads the cookie.
fn set_cookie(
    headers: &HeaderMap,
    (start, value): (&str, &str),
    life: Duration,
    sent: &CookieSent,
) -> String {
    let CookieSent { same_site, is_secure } = sent;
    let secure = if *is_secure { "; Secure" } else { "" };
    let (name, life) = (cookie_name(headers, start), life.as_secs());
    format!("{name}={value}; Path=/; HttpOnly; SameSite={same_site}; Max-Age={life}{secure}")
}

/// True for a page that came by TLS: the browser then sends the cookie by TLS alone.
fn is_secure(headers: &HeaderMap) -> bool {
    let origin = headers.get(header::ORIGIN).and_then(|origin| origin.to_str().ok()).unwrap_or_default();
    origin.starts_with("https://")
}

fn cookie_name(headers: &HeaderMap, start: &str) -> String {
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let port = host.rsplit_once(':').map(|(_, port)| port);
    let port = port.filter(|port| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()));
    port.map_or_else(|| start.to_owned(), |port| format!("{start}_{port}"))
}

fn cookie(headers: &HeaderMap, start: &str) -> Option<String> {
    let name = cookie_name(headers, start);
    let all = headers.get_all(header::COOKIE).into_iter().filter_map(|all| all.to_str().ok());
    let mut pairs = all.flat_map(|all| all.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(known, value)| *known == name && !value.is_empty()).map(|(_, value)| value.to_owned())
}

/// The name of a session in Redis. A reader of Redis cannot send the cookie.
fn name(cookie: &str) -> String {
    hex::encode(Sha256::digest(cookie))
}

// === impl NoSession ===

impl NoSession {
    fn problem(self) -> Problem {
        let reason = match self {
            Self::Expired => "expired",
            Self::Removed => "removed",
            Self::Ended => "ended",
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
    fn each_port_of_a_host_has_its_own_cookie_which_is_secure_behind_tls() {
        let plain = headers(&[(header::HOST, "127.0.0.1:9480"), (header::ORIGIN, "http://127.0.0.1:9480")]);
        let set = set_cookie(&plain, (COOKIE, "x"), LIFE, &CookieSent::to_own_pages(is_secure(&plain)));
        assert_eq!(set, "delayq_session_9480=x; Path=/; HttpOnly; SameSite=Strict; Max-Age=28800");
        let tls = headers(&[(header::HOST, "delayq.example"), (header::ORIGIN, "https://delayq.example")]);
        let set = login_cookie(&tls, Some("x"), is_secure(&tls));
        assert_eq!(set, "delayq_login=x; Path=/; HttpOnly; SameSite=Lax; Max-Age=600; Secure");
        let sent = "a=b; delayq_session=; delayq_session_9480=1.2.3; delayq_session_1=4";
        let asked = headers(&[(header::HOST, "[::1]:9480"), (header::COOKIE, sent)]);
        assert_eq!(cookie(&asked, COOKIE).as_deref(), Some("1.2.3"));
        let asked = headers(&[(header::HOST, "[::1]"), (header::COOKIE, sent)]);
        assert_eq!(cookie(&asked, COOKIE), None);
    }
}
