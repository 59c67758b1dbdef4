//! Facts about the deployment from Redis and etcd: numbers and names, never a message.

use super::host::why;
use crate::commands::topics::json_of;
use crate::commands::{audit, topic};
use crate::deployment::Context;
use crate::look::{answering, topics as seen_topics};
use delayq::UnixMillis;
use delayq_look::{Look, Shard};
use delayq_service::Fault;
use jiff::Timestamp;
use serde_json::{Value, json};

pub(super) fn redis(context: &Context, look: &Look) -> Result<Value, String> {
    let servers = look.servers.as_ref().expect("the servers were requested").as_ref();
    let nodes = &servers.map_err(ToString::to_string)?.nodes;
    if let (true, Some(Err(error))) = (nodes.iter().all(Result::is_err), nodes.first()) {
        return Err(error.to_string());
    }
    let of = |node: &Result<_, delayq::Error>| match node {
        Ok(facts) => json!(facts),
        Err(error) => json!({ "why": error.to_string() }),
    };
    Ok(
        json!({ "address": context.client().address(), "nodes": nodes.iter().map(of).collect::<Vec<Value>>() }),
    )
}

pub(super) fn etcd(look: &Look) -> Result<Value, String> {
    of_etcd(look.etcd.as_ref()).map(|members| json!(members))
}

pub(super) fn fleet(look: &Look) -> Result<Value, String> {
    of_etcd(look.fleet.as_ref()).map(|fleet| json!(fleet))
}

fn of_etcd<T>(part: Option<&Result<T, Fault>>) -> Result<&T, String> {
    part.ok_or("[etcd] enabled = false")?.as_ref().map_err(ToString::to_string)
}

pub(super) fn shards(look: &Look) -> Result<Value, String> {
    let shards = answering(look).map_err(why)?;
    let seen: Vec<Value> = shards.seen.iter().map(Shard::json).collect();
    Ok(json!({ "shards": seen, "unseen": shards.unseen }))
}

pub(super) fn topics(look: &Look) -> Result<Value, String> {
    let seen = seen_topics(look).map_err(why)?;
    let policies = seen.numbers.iter().zip(seen.policies.values());
    let line = |((name, numbers), policy)| json!({ "topic": name, "numbers": json_of(numbers), "policy": topic::policy_of(policy) });
    Ok(policies.map(line).collect())
}

pub(super) async fn clocks(context: &Context) -> Result<Value, String> {
    let before = UnixMillis::from(Timestamp::now());
    let redis = context.now().await.map_err(why)?;
    let after = UnixMillis::from(Timestamp::now());
    let difference_ms = |host: UnixMillis| host.get() as i64 - redis.get() as i64;
    Ok(json!({
        "redis_ms": redis, "host_before_ms": before, "host_after_ms": after,
        "host_minus_redis_ms": { "at_least": difference_ms(before), "at_most": difference_ms(after) },
    }))
}

pub(super) async fn books(context: &Context) -> Result<Value, String> {
    let books: Result<Vec<Value>, Fault> = audit::books(context).await;
    books.map(Value::from).map_err(why)
}
