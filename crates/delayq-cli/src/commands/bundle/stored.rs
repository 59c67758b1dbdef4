//! What Redis and etcd tell of the deployment: numbers and names, never a message.

use super::host::why;
use crate::commands::{audit, doctor, topic, topics};
use crate::deployment::{Context, Global};
use crate::failure::of_core;
use delayq::UnixMillis;
use delayq_cluster::{ClusterConfig, Observer};
use delayq_service::Fault;
use jiff::Timestamp;
use serde_json::{Value, json};

/// Redis: its version, and the settings that delayq depends on.
pub(super) async fn redis(context: &Context) -> Result<Value, String> {
    let facts = context.admin().check_server().await.map_err(|error| why(of_core(error)))?;
    Ok(json!({ "address": context.client.address(), "facts": facts }))
}

/// Every endpoint of etcd: its version, and whether it knows a leader.
pub(super) async fn etcd(context: &Context) -> Result<Value, String> {
    Ok(json!(observer(context)?.health().await))
}

/// The fleet of timers: its members, its plan and who holds what.
pub(super) async fn fleet(context: &Context) -> Result<Value, String> {
    let overview = observer(context)?.overview().await.map_err(|error| error.to_string())?;
    Ok(json!(overview))
}

fn observer(context: &Context) -> Result<Observer, String> {
    if !context.config.etcd.enabled {
        return Err("[etcd] enabled = false".to_owned());
    }
    let fleet = ClusterConfig::new(&context.config.etcd, &context.config.deployment, "delayq-cli");
    Observer::new(&fleet).map_err(|error| error.to_string())
}

/// Every shard: owner, epoch, when it is pumped next, and the layout it knows.
pub(super) async fn shards(context: &Context) -> Result<Value, String> {
    let admin = context.admin();
    let shards = async {
        let overviews = admin.overview().await?;
        let ids: Vec<_> = overviews.iter().map(|(shard, _)| *shard).collect();
        let layouts = admin.shard_layouts(&ids).await;
        let shard = |((shard, overview), layout): (
            _,
            Result<Option<delayq::admin::ShardLayout>, delayq::Error>,
        )| {
            let known = layout.ok().flatten();
            let counts = known.as_ref().map(|known| known.layout.counts().to_vec());
            json!({ "shard": shard, "overview": overview, "layout": counts, "messages": known.map(|known| known.messages) })
        };
        Ok(overviews.into_iter().zip(layouts).map(shard).collect())
    };
    shards.await.map_err(|error| why(of_core(error)))
}

/// Every topic: its numbers and its policy in force.
pub(super) async fn topics(context: &Context) -> Result<Value, String> {
    let admin = context.admin();
    let topics = async {
        let mut lines = Vec::new();
        for topic in admin.topics().await? {
            let (numbers, policy) = (admin.count(&topic).await?, admin.policy(&topic).await?);
            lines.push(json!({ "topic": topic, "numbers": topics::json_of(&numbers), "policy": topic::policy_of(&policy) }));
        }
        Ok(lines)
    };
    topics.await.map(Value::from).map_err(|error| why(of_core(error)))
}

/// This host's clock and Redis's.
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

/// What the doctor finds.
pub(super) async fn doctor(global: &Global, context: &Context) -> Result<Value, String> {
    Ok(json!(doctor::examine(global, context).await))
}

/// Whether the books balance.
pub(super) async fn books(context: &Context) -> Result<Value, String> {
    let books: Result<Vec<Value>, Fault> = audit::books(context).await;
    books.map(Value::from).map_err(why)
}
