//! Auditing bodies: whether each stands in the place that its state says.

use super::Admin;
use crate::{Error, MAX_IDS_A_CALL, MessageId, ShardId, reply::Reply, script::Verb};
use redis::from_redis_value;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Keys that Redis looks at in one step.
const KEYS_A_STEP: usize = 1000;

/// What an audit of all bodies found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Bodies {
    /// How many bodies were looked at; one may count twice where Redis's table of keys changes its size meanwhile.
    pub looked_at: u64,
    /// Those that stand in no place.
    pub astray: BTreeSet<Astray>,
}

/// A body that stands in no place: no due time, lease, dead letter or marker leads to it, so nothing ever will.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Astray {
    /// The shard it lies in.
    pub shard: ShardId,
    /// The name of its topic, or `#` and its number where the name is not known.
    pub topic: String,
    /// Its id.
    pub id: String,
}

// === impl Admin ===

impl Admin {
    /// Looks at every body of the deployment, while everything goes on: Redis walks over all its keys once, in steps of
    /// 1,000. A body that is ready counts as in its place, since its queue is not searched. `progress` hears how many were
    /// looked at.
    ///
    /// # Errors
    /// Redis cannot be used, or does not allow SCAN.
    pub async fn audit_bodies(&self, mut progress: impl FnMut(u64)) -> Result<Bodies, Error> {
        let (mut bodies, mut cursor) = (Bodies::default(), 0);
        loop {
            let (next, keys) = self.scan(cursor).await?;
            let mut shards: BTreeMap<ShardId, Vec<&[u8]>> = BTreeMap::new();
            for (shard, name) in keys.iter().filter_map(|key| self.client.keys().parse(key)) {
                shards.entry(shard).or_default().push(name);
            }
            for (shard, names) in shards {
                for some in names.chunks(MAX_IDS_A_CALL) {
                    bodies.looked_at += some.len() as u64;
                    for name in self.astray(shard, some).await? {
                        bodies.astray.insert(self.describe_astray(shard, &name).await?);
                    }
                }
            }
            progress(bodies.looked_at);
            if next == 0 {
                return Ok(bodies);
            }
            cursor = next;
        }
    }

    /// One step over the keys: where the next one begins (0: this was the last), and the bodies' keys of this one. Only bodies
    /// are strings; a group may be named so that another of its keys looks like one.
    async fn scan(&self, cursor: u64) -> Result<(u64, Vec<Vec<u8>>), Error> {
        let mut scan = redis::cmd("SCAN");
        scan.arg(cursor).arg("MATCH").arg(format!("{{{}:*}}:m:*", self.client.keys().namespace()));
        scan.arg("COUNT").arg(KEYS_A_STEP).arg("TYPE").arg("string");
        let reply = self.client.link().plain(&scan).await?;
        from_redis_value(reply)
            .map_err(|error| Error::Unfit(format!("SCAN answers what no Redis answers: {error}")))
    }

    /// Those of the bodies that stand in no place.
    async fn astray(&self, shard: ShardId, names: &[&[u8]]) -> Result<Vec<Vec<u8>>, Error> {
        let mut call = self.client.call(Verb::Audit, shard);
        names.iter().for_each(|name| call.push(*name));
        let mut reply = Reply::new(Verb::Audit, self.client.send(call).await?)?;
        for _state in 0..5 {
            reply.number()?;
        }
        let mut astray = Vec::new();
        while !reply.is_empty() {
            astray.push(reply.bytes()?);
        }
        Ok(astray)
    }

    /// `name` is `m:<topic number>:<id>`.
    async fn describe_astray(&self, shard: ShardId, name: &[u8]) -> Result<Astray, Error> {
        let mut parts = name.splitn(3, |&byte| byte == b':').skip(1);
        let mut part = || parts.next().unwrap_or_default();
        let (number, id) = (String::from_utf8_lossy(part()).into_owned(), part());
        let mut hget = redis::cmd("HGET");
        hget.arg(format!("{}t:{number}", self.client.keys().base(shard))).arg("name");
        let topic = from_redis_value(self.client.link().plain(&hget).await?).ok();
        let id = MessageId::from_bytes(id).map(|id| id.to_string());
        Ok(Astray {
            shard,
            topic: topic.unwrap_or_else(|| format!("#{number}")),
            id: id.unwrap_or_else(|| String::from_utf8_lossy(name).into_owned()),
        })
    }
}
