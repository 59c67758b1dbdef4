//! The timers: the fleet by etcd, and the owner of each shard by Redis.

use crate::look::{Look, Shard};
use delayq::UnixMillis;
use delayq::protocol::ShardId;
use delayq_service::json::add_time;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// An owner of shards.
#[derive(Debug)]
pub struct Owner {
    /// The name of the timer.
    pub name: String,
    /// The shards, in order.
    pub shards: Vec<ShardId>,
    /// The highest epoch of the shards.
    pub highest_epoch: u64,
    /// The earliest time of a pump; `None`: nothing is pending.
    pub next_pump: Option<UnixMillis>,
    /// Number of shards whose clock is not trusted.
    pub held: usize,
}

// === impl Owner ===

impl Owner {
    fn json(&self) -> Value {
        let Self { name, shards, highest_epoch, next_pump, held } = self;
        let mut value =
            json!({ "name": name, "shards": shards, "highest_epoch": highest_epoch, "held": held });
        add_time(&mut value, "next_pump", *next_pump);
        value
    }
}

/// The owners of these shards, by name.
pub fn owners(shards: &[Shard]) -> Vec<Owner> {
    let mut owners: BTreeMap<&str, Owner> = BTreeMap::new();
    for shard in shards {
        let overview = &shard.overview;
        let fresh = || Owner {
            name: shard.owner().to_owned(),
            shards: Vec::new(),
            highest_epoch: 0,
            next_pump: None,
            held: 0,
        };
        let owner = owners.entry(shard.owner()).or_insert_with(fresh);
        owner.shards.push(shard.id);
        owner.highest_epoch = owner.highest_epoch.max(overview.epoch);
        owner.next_pump = [owner.next_pump, overview.next_due].into_iter().flatten().min();
        owner.held += usize::from(overview.held);
    }
    owners.into_values().collect()
}

/// The fleet by etcd, null without an answer of etcd, and the owners by Redis.
pub fn timers(look: &Look, owners: &[Owner]) -> Value {
    let fleet = look.fleet.as_ref().and_then(|fleet| fleet.as_ref().ok());
    json!({ "fleet": fleet, "owners": owners.iter().map(Owner::json).collect::<Vec<Value>>() })
}
