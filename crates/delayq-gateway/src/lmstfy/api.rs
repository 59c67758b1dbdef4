//! The API: the checks of each call in lmstfy's order, and its answer.

use super::call::{Action, Call};
use super::keys::{Key, Known};
use super::parameters::Parameters;
use super::reply::{Answer, Refusal, error, internal, refusal};
use super::state::Lmstfy;
use super::{consume, dead, end, job, look, names, publish};
use crate::input::Whole;
use crate::server::{Outgoing, Peer};
use crate::state::App;
use axum::body::Body;
use axum::extract::Request;
use axum::http::HeaderMap;
use axum::http::request::Parts;
use axum::response::Response;
use delayq::{Target, Topic};
use serde_json::json;
use std::time::Duration;

/// The header with the token.
const TOKEN: &str = "x-token";
/// How long a body is dropped that nobody reads.
const UNREAD: Duration = Duration::from_secs(30);

/// A call that passed the checks.
pub(super) struct Ask {
    pub(super) lmstfy: Lmstfy,
    /// The engine of the pool.
    pub(super) app: App,
    pub(super) pool: String,
    pub(super) call: Call,
    /// The topics: one, unless several queues are consumed.
    pub(super) topics: Vec<Topic>,
    pub(super) query: Parameters,
    pub(super) headers: HeaderMap,
    pub(super) connection: Option<(Outgoing, Peer)>,
}

// === impl Ask ===

impl Ask {
    pub(super) fn topic(&self) -> &Topic {
        &self.topics[0]
    }

    /// The message of a job's id; `None`: no message can have this id. A growth may have added the shard that it names.
    pub(super) async fn target(&self, job_id: &str) -> Result<Option<Target>, Refusal> {
        let Some(target) = job::target(job_id) else { return Ok(None) };
        let client = self.app.admin.client();
        let exists = || target.id.shard().is_none_or(|shard| client.shards().contains(shard));
        if !exists() {
            // Any call of a shard that has grown says so.
            self.app.admin.topic(self.topic()).count().await.map_err(internal)?;
        }
        Ok(exists().then_some(target))
    }
}

/// Answers a request.
pub(super) async fn answer(lmstfy: &Lmstfy, request: Request) -> Response {
    let Some(call) = Call::of(request.method(), request.uri().path()) else {
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

/// Answers a request whose body nobody reads: the rest of the body is dropped.
pub(super) fn refused(body: Body, refusal: Refusal) -> Refusal {
    Whole::discard(body, UNREAD);
    refusal
}

async fn checked(lmstfy: &Lmstfy, call: Call, mut parts: Parts) -> Result<(Ask, Option<Throttle>), Refusal> {
    let topics = match call.action {
        Action::Consume => names::topics(&call.namespace, &call.queue)?,
        _ => vec![names::topic(&call.namespace, &call.queue)?],
    };
    let query = Parameters::of(parts.uri.query().unwrap_or_default());
    let (pool, token) = pool_and_token(&parts.headers, &query);
    let app = lmstfy.pools.get(&pool).cloned().ok_or_else(|| error(404, "pool not found"))?;
    let key = Key::of(&pool, &call.namespace, &token);
    let known = authorised(lmstfy, &call.action, &token, &key).await?;
    let throttle = known.and_then(|known| Throttle::of(&call.action, known, key, token));
    let connection = parts.extensions.remove::<Outgoing>().zip(parts.extensions.remove::<Peer>());
    let (lmstfy, headers) = (lmstfy.clone(), parts.headers);
    Ok((Ask { lmstfy, app, pool, call, topics, query, headers, connection }, throttle))
}

async fn done(ask: Ask, body: Body, throttle: Option<Throttle>) -> Answer {
    match throttle {
        Some(throttle) => throttle.answer(ask, body).await,
        None => act(ask, body).await,
    }
}

async fn act(ask: Ask, body: Body) -> Answer {
    match ask.call.action.clone() {
        Action::Publish => publish::one(&ask, body).await,
        Action::PublishMany => publish::many(&ask, body).await,
        Action::Republish(id) => publish::again(&ask, body, &id).await,
        Action::Consume => consume::consume(ask).await,
        Action::PeekQueue => look::first(&ask).await,
        Action::PeekJob(id) => look::job(&ask, &id).await,
        Action::Size => look::size(&ask).await,
        Action::Delete(id) => end::delete(&ask, &id).await,
        Action::Destroy => end::destroy(&ask).await,
        Action::PeekDead => dead::first(&ask).await,
        Action::DeadSize => dead::size(&ask).await,
        Action::Respawn => dead::respawn(&ask).await,
        Action::DeleteDead => dead::delete(&ask).await,
    }
}

/// The pool and the token of `POOL:TOKEN`, in the header or in a parameter.
fn pool_and_token(headers: &HeaderMap, query: &Parameters) -> (String, String) {
    let of_header = headers.get(TOKEN).and_then(|value| value.to_str().ok()).filter(|text| !text.is_empty());
    let given = of_header.or_else(|| query.text("token")).unwrap_or_default();
    let (pool, token) = super::keys::split(given);
    (pool.to_owned(), token.to_owned())
}

/// The record of the token; `None` if nothing is checked.
async fn authorised(
    lmstfy: &Lmstfy,
    action: &Action,
    token: &str,
    key: &Key,
) -> Result<Option<Known>, Refusal> {
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

/// The limit of a call.
struct Throttle {
    key: Key,
    token: String,
    side: &'static str,
    most: i64,
    interval: i64,
}

// === impl Throttle ===

impl Throttle {
    /// `None`: no limit concerns the call.
    fn of(action: &Action, known: Known, key: Key, token: String) -> Option<Self> {
        let (side, limit) = (Self::side(action)?, known.limit?);
        let most = if side == "r" { limit.read } else { limit.write };
        (most > 0).then_some(Self { key, token, side, most, interval: limit.interval })
    }

    fn side(action: &Action) -> Option<&'static str> {
        match action {
            Action::Consume => Some("r"),
            Action::Publish | Action::PublishMany => Some("w"),
            _ => None,
        }
    }

    /// The answer of a call within the limit. A call without effect does not count.
    async fn answer(self, ask: Ask, body: Body) -> Answer {
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
