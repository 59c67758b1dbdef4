//! Tokens: shown once, and masked from then on.

use super::ask::AdminRequest;
use crate::lmstfy::config::DEFAULT_POOL;
use crate::lmstfy::keys::{self, TokenKey};
use crate::lmstfy::names::check_namespace;
use crate::lmstfy::parameters::Parameters;
use crate::lmstfy::reply::{JobReply, Refusal, error, indented, internal, nothing};
use axum::body::Body;
use serde_json::{Map, Value, json};

/// Minimum characters of a token that a user chooses.
const MIN_TOKEN: usize = 20;
const MAX_NAMESPACE: usize = 255;

pub(super) async fn list(ask: &AdminRequest, namespace: &str) -> JobReply {
    let given = ask.query.text("pool").filter(|pool| !pool.is_empty());
    let pool = given.unwrap_or(DEFAULT_POOL);
    known(ask, pool)?;
    let prefix = given.map(|pool| format!("{pool}:")).unwrap_or_default();
    let tokens = ask.lmstfy.keys.tokens(pool, namespace).await.map_err(internal)?;
    let shown = |token: keys::TokenNote| (format!("{prefix}{}", token.shown), json!(token.description));
    let tokens: Map<String, Value> = tokens.into_iter().map(shown).collect();
    Ok(indented(200, &json!({ "tokens": tokens })))
}

pub(super) async fn add(ask: &AdminRequest, body: Body, namespace: &str) -> JobReply {
    let lmstfy = &ask.lmstfy;
    let is_form = ask
        .headers
        .get("content-type")
        .is_some_and(|kind| kind.as_bytes().starts_with(b"application/x-www-form-urlencoded"));
    let form = match is_form {
        true => Parameters::of(&String::from_utf8_lossy(&ask.whole(body).await?)),
        false => Parameters::default(),
    };
    let query = ask.query.clone().and(form);
    let description = query.text("description").filter(|text| !text.is_empty());
    let description = description.ok_or_else(|| error(400, "invalid description"))?;
    let given = query.text("token").filter(|text| !text.is_empty());
    let asked = query.text("pool").filter(|pool| !pool.is_empty());
    let fresh = keys::fresh();
    let (of_token, token) = given.map_or((DEFAULT_POOL, fresh.as_str()), keys::split);
    let named = given.is_some_and(|given| given.contains(':'));
    let pool = if named { of_token } else { asked.unwrap_or(DEFAULT_POOL) };
    if !lmstfy.pools.contains_key(pool) {
        return Err(error(400, "the pool was not exists"));
    }
    if given.is_some() && token.len() < MIN_TOKEN {
        return Err(error(400, "the user token was too short"));
    }
    if namespace.len() > MAX_NAMESPACE {
        return Err(error(400, "the namespace name was too long"));
    }
    check_namespace(namespace)?;
    let key = TokenKey::of(pool, namespace, token);
    if !lmstfy.keys.add(&key, token, description).await.map_err(internal)? {
        return Err(error(400, "the token has already existed"));
    }
    let shown = if pool == DEFAULT_POOL { token.to_owned() } else { format!("{pool}:{token}") };
    Ok(indented(201, &json!({ "token": shown })))
}

pub(super) async fn delete(ask: &AdminRequest, namespace: &str, given: &str) -> JobReply {
    let (pool, token) = keys::split(given);
    let key = ask.lmstfy.keys.find(pool, namespace, token).await.map_err(internal)?;
    ask.lmstfy.keys.delete(&key).await.map_err(internal)?;
    Ok(nothing())
}

fn known(ask: &AdminRequest, pool: &str) -> Result<(), Refusal> {
    if ask.lmstfy.pools.contains_key(pool) {
        return Ok(());
    }
    Err(error(400, "the pool was not exists"))
}
