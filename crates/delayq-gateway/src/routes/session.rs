//! Sessions of the page: login, logout, and the sender of the request.

use super::answer::{Answer, json, nothing};
use crate::input::Ask;
use crate::origin;
use crate::problem::Problem;
use crate::sessions::{Caller, SessionHolder, end_cookie};
use crate::state::App;
use crate::tenant::Tenant;
use axum::Extension;
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use delayq_service::json::add_time;
use serde::Deserialize;
use serde_json::{Value, json as value};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LogIn {
    #[serde(default)]
    token: Option<String>,
    #[serde(default)]
    once: Option<String>,
}

pub(super) async fn me(State(app): State<App>, Extension(caller): Extension<Caller>) -> Response {
    json(StatusCode::OK, &shown(&app, &caller))
}

/// Refuses pages of other origins, which could log a visitor in under another name.
pub(super) async fn log_in(State(app): State<App>, ask: Ask) -> Answer {
    let headers = ask.headers.clone();
    origin::check(&headers, false)?;
    let asked = ask.json::<LogIn>().await?;
    if !app.tokens.are_needed() {
        return Ok(json(StatusCode::OK, &shown(&app, &Caller::anybody())));
    }
    let (caller, cookie) = match asked {
        LogIn { token: Some(token), once: None } => app.sessions.begin(token.trim(), &headers).await?,
        LogIn { token: None, once: Some(code) } => app.sessions.begin_once(&code, &headers).await?,
        _ => return Err(Problem::invalid("token", "set token or once")),
    };
    Ok(with_cookie(json(StatusCode::OK, &shown(&app, &caller)), &cookie))
}

pub(super) async fn log_out(State(app): State<App>, ask: Ask) -> Answer {
    origin::check(&ask.headers, false)?;
    app.sessions.end(&ask.headers).await?;
    Ok(with_cookie(nothing(), &end_cookie(&ask.headers)))
}

/// Ends the sessions of one holder, whom the request names.
pub(super) async fn end_all(State(app): State<App>, ask: Ask) -> Answer {
    let named = |name| ask.query.text(name).filter(|text| !text.is_empty());
    let (person, token) = (named("person"), named("token_name"));
    let holder = match (person, token) {
        (Some(person), None) => SessionHolder::Person(person.to_owned()),
        (None, Some(token)) => SessionHolder::Token(token.to_owned()),
        _ => return Err(Problem::invalid("person", "name either a person or, as token_name, a token")),
    };
    app.sessions.end_all(&holder).await?;
    Ok(nothing())
}

pub(super) fn with_cookie(mut response: Response, cookie: &str) -> Response {
    let cookie = HeaderValue::from_str(cookie).expect("a cookie is made of printable characters");
    response.headers_mut().append(header::SET_COOKIE, cookie);
    response
}

fn shown(app: &App, caller: &Caller) -> Value {
    let mut value = value!({
        "name": caller.name, "rights": caller.rights.words(), "session": caller.ends.is_some(),
        "person": caller.is_person,
        "tenant": caller.tenant.as_ref().map(Tenant::name),
        "namespace": app.unscoped().admin.client().namespace().as_str(), "version": env!("CARGO_PKG_VERSION"),
    });
    add_time(&mut value, "session_ends", caller.ends);
    value
}
