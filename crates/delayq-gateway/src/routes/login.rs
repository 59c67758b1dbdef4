//! Logins of people through the identity provider: how, where to, and the way back.

use super::answer::{Answer, json};
use super::session::with_cookie;
use crate::input::Ask;
use crate::oidc::{Oidc, RETURN};
use crate::origin;
use crate::problem::{Kind, Problem};
use crate::sessions::{login_cookie, login_of};
use crate::state::App;
use axum::Router;
use axum::body::Body;
use axum::extract::{RawQuery, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::Response;
use axum::routing::get;
use percent_encoding::percent_decode_str;
use serde_json::json as value;

/// In metrics.
const ROUTE: &str = "endLogin";
/// Maximum bytes of the provider's answer in the address.
const MAX_ANSWER: usize = 16 * 1024;

pub(super) fn router() -> Router<App> {
    Router::new().route(RETURN, get(end))
}

pub(super) async fn ways(State(app): State<App>) -> Response {
    let provider = app.oidc.as_ref().map(Oidc::issuer);
    json(StatusCode::OK, &value!({ "token": app.tokens.are_needed(), "provider": provider }))
}

/// Refuses pages of other origins, which could log a visitor in.
pub(super) async fn begin(State(app): State<App>, ask: Ask) -> Answer {
    origin::check(&ask.headers, false)?;
    let oidc = provider(&app)?;
    let host = ask.headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let begun = oidc.begin(host, &app.unscoped().receipts).await?;
    let cookie = login_cookie(&ask.headers, Some(&begun.cookie), oidc.is_secure());
    Ok(with_cookie(json(StatusCode::OK, &value!({ "url": begun.url })), &cookie))
}

/// The provider sent the browser back: to the page, with a session or with the reason why there is none.
async fn end(State(app): State<App>, RawQuery(query): RawQuery, headers: HeaderMap) -> Response {
    let ended = ended(&app, query.as_deref().unwrap_or_default(), &headers).await;
    let is_secure = app.oidc.as_ref().is_some_and(Oidc::is_secure);
    let mut response = match ended {
        Ok(session) => with_cookie(sent_to("/?login=done"), &session),
        Err(problem) => sent_to(&refused(&problem)),
    };
    app.metrics.answered(ROUTE, response.status().as_u16());
    response = with_cookie(response, &login_cookie(&headers, None, is_secure));
    response
}

/// The cookie of the session.
async fn ended(app: &App, query: &str, headers: &HeaderMap) -> Result<String, Problem> {
    let oidc = provider(app)?;
    if query.len() > MAX_ANSWER {
        return Err(Problem::new(Kind::TooLarge, format!("the answer has more than {MAX_ANSWER} bytes")));
    }
    let (cookie, answer) = (login_of(headers), parameters(query));
    let person = oidc.end(cookie.as_deref(), &answer, &app.unscoped().receipts).await?;
    Ok(app.sessions.begin_person(person, headers, oidc.is_secure()).await?.1)
}

fn provider(app: &App) -> Result<&Oidc, Problem> {
    app.oidc
        .as_ref()
        .ok_or_else(|| Problem::new(Kind::Conflict, "no identity provider is configured: [gateway.oidc]"))
}

/// The parameters as a form has them. A provider may add any.
fn parameters(query: &str) -> Vec<(String, String)> {
    let decoded = |text: &str| percent_decode_str(&text.replace('+', " ")).decode_utf8_lossy().into_owned();
    let pair = |pair: &str| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        (decoded(name), decoded(value))
    };
    query.split('&').map(pair).collect()
}

/// The page has a sentence for the reason; the log has the detail, under the same id.
fn refused(problem: &Problem) -> String {
    let (item, login) = (problem.item(), format!("{:08x}", fastrand::u32(..)));
    let (code, reason) = (problem.kind().code(), item["reason"].as_str().unwrap_or_default());
    tracing::warn!(login, code, reason, detail = problem.detail(), "a login was refused");
    format!("/?refused={code}&reason={reason}&login={login}")
}

/// The addresses are made of codes and words.
fn sent_to(place: &str) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SEE_OTHER;
    let place = HeaderValue::from_str(place).expect("an address is made of codes and words");
    response.headers_mut().insert(header::LOCATION, place);
    response.headers_mut().insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    response
}
