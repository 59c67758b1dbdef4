//! Limits of tokens.

use super::ask::AdminRequest;
use crate::lmstfy::keys::{self, Limit};
use crate::lmstfy::reply::{self, JobReply, Refusal, error, internal, refusal, said};
use axum::body::Body;
use serde::Serialize;
use serde_json::{Value, json};

/// In the order of lmstfy's fields.
#[derive(Serialize)]
struct ListedLimit<'n> {
    namespace: &'n str,
    token: String,
    limiter: Limit,
}

#[derive(Serialize)]
struct Set {
    limiter: Limit,
}

pub(super) async fn list(ask: &AdminRequest) -> JobReply {
    let limits = ask.lmstfy.keys.limits().await.map_err(internal)?;
    let listed = |(key, note): &(keys::TokenKey, keys::LimitNote)| {
        serde_json::value::to_raw_value(&ListedLimit {
            namespace: &key.namespace,
            token: of_pool(&key.pool, &note.shown),
            limiter: note.limit,
        })
    };
    let all: Result<Vec<_>, _> = limits.iter().map(listed).collect();
    Ok(said(200, &all.map_err(internal)?))
}

pub(super) async fn get(ask: &AdminRequest, namespace: &str, given: &str) -> JobReply {
    let (pool, token) = keys::split(given);
    let key = ask.lmstfy.keys.find(pool, namespace, token).await.map_err(internal)?;
    match ask.lmstfy.keys.limit(&key).await.map_err(internal)? {
        Some(limit) => Ok(said(200, &limit)),
        None => Err(refusal(404, &Value::Null)),
    }
}

pub(super) async fn set(
    ask: &AdminRequest,
    body: Body,
    (namespace, given): (&str, &str),
    replaces: bool,
) -> JobReply {
    let lmstfy = &ask.lmstfy;
    let (pool, token) = keys::split(given);
    let key = lmstfy.keys.find(pool, namespace, token).await.map_err(internal)?;
    let bytes = ask.whole(body).await?;
    let limit = read(&bytes)?;
    if limit.read == 0 && limit.write == 0 {
        return Err(refusal(400, &Set { limiter: limit }));
    }
    if limit.interval <= 0 {
        return Err(error(400, "interval should be > 0"));
    }
    let shown = if token.contains('…') { token.to_owned() } else { keys::masked(token) };
    if !lmstfy.keys.set_limit(&key, &shown, limit, replaces).await.map_err(internal)? {
        return Err(error(500, &format!("throttler token({token}) has already exists")));
    }
    Ok(said(if replaces { 200 } else { 201 }, &Set { limiter: limit }))
}

pub(super) async fn delete(ask: &AdminRequest, namespace: &str, given: &str) -> JobReply {
    let (pool, token) = keys::split(given);
    let key = ask.lmstfy.keys.find(pool, namespace, token).await.map_err(internal)?;
    ask.lmstfy.keys.delete_limit(&key).await.map_err(internal)?;
    Ok(said(200, &json!({ "msg": "success" })))
}

fn read(bytes: &[u8]) -> Result<Limit, Refusal> {
    serde_json::from_slice::<Option<Limit>>(bytes).map(Option::unwrap_or_default).map_err(|error| {
        let value = json!({ "error": { "Offset": offset(bytes, &error) } });
        Box::new(reply::typed(400, "text/plain; charset=utf-8", reply::text(&value)))
    })
}

/// The number of bytes up to a fault, as Go counts them.
fn offset(bytes: &[u8], error: &serde_json::Error) -> usize {
    let lines = bytes.split(|&byte| byte == b'\n').take(error.line().saturating_sub(1));
    lines.map(|line| line.len() + 1).sum::<usize>() + error.column()
}

fn of_pool(pool: &str, shown: &str) -> String {
    if pool == crate::lmstfy::config::DEFAULT_POOL { shown.to_owned() } else { format!("{pool}:{shown}") }
}
