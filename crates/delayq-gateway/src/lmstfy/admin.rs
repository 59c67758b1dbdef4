//! The admin API: tokens, limits, and looks at the process.

mod ask;
mod limits;
mod looks;
mod route;
mod tokens;

use super::parameters::Parameters;
use super::reply::{self, JobReply};
use super::state::Lmstfy;
use ask::AdminRequest;
use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderValue, header};
use axum::response::Response;
use route::{Act, found};

pub(super) async fn answer(lmstfy: &Lmstfy, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let path = parts.uri.path();
    let Some(act) = found(&parts.method, path) else {
        let query = parts.uri.query();
        return route::elsewhere(&parts.method, path, query).unwrap_or_else(nowhere);
    };
    if act.needs_account() && !lmstfy.accounts.admit(&parts.headers) {
        return stranger();
    }
    let query = Parameters::of(parts.uri.query().unwrap_or_default());
    let ask = AdminRequest { lmstfy: lmstfy.clone(), query, headers: parts.headers };
    done(&ask, body, act).await.unwrap_or_else(|refusal| *refusal)
}

async fn done(ask: &AdminRequest, body: Body, act: Act) -> JobReply {
    match act {
        Act::Info => looks::info(ask).await,
        Act::Version => Ok(looks::version()),
        Act::Metrics => looks::metrics(ask).await,
        Act::Pools => Ok(looks::pools(ask)),
        Act::AccessLog => Ok(looks::access_log(ask)),
        Act::SetAccessLog => looks::set_access_log(ask),
        Act::Tokens(namespace) => tokens::list(ask, &namespace).await,
        Act::NewToken(namespace) => tokens::add(ask, body, &namespace).await,
        Act::DeleteToken(namespace, token) => tokens::delete(ask, &namespace, &token).await,
        Act::Limits => limits::list(ask).await,
        Act::Limit(namespace, token) => limits::get(ask, &namespace, &token).await,
        Act::NewLimit(namespace, token) => limits::set(ask, body, (&namespace, &token), false).await,
        Act::SetLimit(namespace, token) => limits::set(ask, body, (&namespace, &token), true).await,
        Act::DeleteLimit(namespace, token) => limits::delete(ask, &namespace, &token).await,
    }
}

fn nowhere() -> Response {
    reply::typed(404, "text/plain", "404 page not found")
}

fn stranger() -> Response {
    let mut response = reply::empty(401);
    let realm = HeaderValue::from_static("Basic realm=\"Authorization Required\"");
    response.headers_mut().insert(header::WWW_AUTHENTICATE, realm);
    response
}
