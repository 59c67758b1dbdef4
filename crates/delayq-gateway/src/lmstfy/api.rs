//! The API: the checks of each call in lmstfy's order, and its answer.

use super::ask::{CheckedCall, refused};
use super::call::{QueueAction, QueueCall};
use super::keys::{KnownToken, TokenKey};
use super::parameters::Parameters;
use super::reply::{JobReply, Refusal, error, internal, refusal};
use super::state::Lmstfy;
use super::{consume, dead, end, look, names, publish};
use crate::server::{Outgoing, Peer};
use axum::body::Body;
use axum::extract::Request;
use axum::http::HeaderMap;
use axum::http::request::Parts;
use axum::response::Response;
use serde_json::json;

const TOKEN: &str = "x-token";

pub(super) async fn answer(lmstfy: &Lmstfy, request: Request) -> Response {
    let Some(call) = QueueCall::of(request.method(), request.uri().path()) else {
        return lmstfy.answered("none", *error(404, "api not found"));
    };
    let name = call.action.name();
    let (parts, body) = request.into_parts();
    let response = match checked(lmstfy, call, parts).await {
        Ok((ask, throttle)) => done(ask, body, throttle).await,
        Err(refusal) => Err(refused(body, refusal)),
    };
    lmstfy.answered(name, response.unwrap_or_else(|refusal| *refusal))
}

async fn checked(
    lmstfy: &Lmstfy,
    call: QueueCall,
    mut parts: Parts,
) -> Result<(CheckedCall, Option<Throttle>), Refusal> {
    let topics = match call.action {
        QueueAction::Consume => names::topics(&call.namespace, &call.queue)?,
        _ => vec![names::topic(&call.namespace, &call.queue)?],
    };
    let query = Parameters::of(parts.uri.query().unwrap_or_default());
    let (pool, token) = pool_and_token(&parts.headers, &query);
    let app = lmstfy.pools.get(&pool).cloned().ok_or_else(|| error(404, "pool not found"))?;
    let key = TokenKey::of(&pool, &call.namespace, &token);
    let known = authorised(lmstfy, &call.action, &token, &key).await?;
    let throttle = known.and_then(|known| Throttle::of(&call.action, known, key, token));
    let connection = parts.extensions.remove::<Outgoing>().zip(parts.extensions.remove::<Peer>());
    let (lmstfy, headers) = (lmstfy.clone(), parts.headers);
    Ok((CheckedCall { lmstfy, app, pool, call, topics, query, headers, connection }, throttle))
}

async fn done(ask: CheckedCall, body: Body, throttle: Option<Throttle>) -> JobReply {
    match throttle {
        Some(throttle) => throttle.answer(ask, body).await,
        None => act(ask, body).await,
    }
}

async fn act(ask: CheckedCall, body: Body) -> JobReply {
    match ask.call.action.clone() {
        QueueAction::Publish => publish::one(&ask, body).await,
        QueueAction::PublishMany => publish::many(&ask, body).await,
        QueueAction::Republish(id) => publish::again(&ask, body, &id).await,
        QueueAction::Consume => consume::consume(ask).await,
        QueueAction::PeekQueue => look::first(&ask).await,
        QueueAction::PeekJob(id) => look::job(&ask, &id).await,
        QueueAction::Size => look::size(&ask).await,
        QueueAction::Delete(id) => end::delete(&ask, &id).await,
        QueueAction::Destroy => end::destroy(&ask).await,
        QueueAction::PeekDead => dead::first(&ask).await,
        QueueAction::DeadSize => dead::size(&ask).await,
        QueueAction::Respawn => dead::respawn(&ask).await,
        QueueAction::DeleteDead => dead::delete(&ask).await,
    }
}

/// The pool and the token of `POOL:TOKEN`, in the header or in a parameter.
fn pool_and_token(headers: &HeaderMap, query: &Parameters) -> (String, String) {
    let of_header = headers.get(TOKEN).and_then(|value| value.to_str().ok()).filter(|text| !text.is_empty());
    let given = of_header.or_else(|| query.text("token")).unwrap_or_default();
    let (pool, token) = super::keys::split(given);
    (pool.to_owned(), token.to_owned())
}

/// `None` if nothing is checked.
async fn authorised(
    lmstfy: &Lmstfy,
    action: &QueueAction,
    token: &str,
    key: &TokenKey,
) -> Result<Option<KnownToken>, Refusal> {
    let is_free = !lmstfy.checks_tokens || action.is_public();
    if !is_free && token.is_empty() {
        return Err(error(401, "token not found"));
    }
    let throttled = Throttle::side(action).is_some() && !token.is_empty();
    if is_free && !throttled {
        return Ok(None);
    }
    let known = lmstfy.keys.known(key).await.map_err(internal)?;
    if !is_free && !known.is_token {
        return Err(error(401, "invalid token"));
    }
    Ok(Some(known))
}

struct Throttle {
    key: TokenKey,
    token: String,
    side: &'static str,
    most: i64,
    interval: i64,
}

// === impl Throttle ===

impl Throttle {
    /// `None`: no limit concerns the call.
    fn of(action: &QueueAction, known: KnownToken, key: TokenKey, token: String) -> Option<Self> {
        let (side, limit) = (Self::side(action)?, known.limit?);
        let most = if side == "r" { limit.read } else { limit.write };
        (most > 0).then_some(Self { key, token, side, most, interval: limit.interval })
    }

    fn side(action: &QueueAction) -> Option<&'static str> {
        match action {
            QueueAction::Consume => Some("r"),
            QueueAction::Publish | QueueAction::PublishMany => Some("w"),
            _ => None,
        }
    }

    /// A call without effect does not count.
    async fn answer(self, ask: CheckedCall, body: Body) -> JobReply {
        let Self { key, token, side, most, interval } = self;
        let (word, success) = if side == "r" { ("consume", 200) } else { ("produce", 201) };
        let lmstfy = ask.lmstfy.clone();
        match lmstfy.keys.allows(&key, side, most, interval).await {
            Ok(true) => {}
            Ok(false) => {
                lmstfy.counters.limited(&key.pool);
                let why = format!("token({token}) {word} reach the limit rate, please retry later");
                return Err(refused(body, refusal(429, &json!({ "msg": why }))));
            }
            Err(error) => return Err(refused(body, refusal(500, &json!({ "err": error.to_string() })))),
        }
        let answer = act(ask, body).await;
        let status = match &answer {
            Ok(response) => response.status(),
            Err(refusal) => refusal.status(),
        };
        if status != success {
            lmstfy.keys.take_back(&key, side, interval).await;
        }
        answer
    }
}
