//! `delayq timers`.

use std::collections::BTreeMap;

use clap::Args;
use delayq_cluster::{Observer, Overview as Group, Role};
use delayq_core::{ShardId, UnixMillis};
use delayq_service::group::group;
use delayq_service::{Fault, codes};
use serde::Serialize;

use crate::deployment::{CliConfig, Context, of_cluster};
use crate::failure::of_core;
use crate::output::{time, time_from};

/// The timers, and who owns which shards
///
/// The members as etcd has them, and what the shards in Redis say of their owners.
#[derive(Debug, Args)]
pub struct Timers {}

#[derive(Serialize)]
struct Answer {
    /// The members and the plan, as etcd has them; none without etcd.
    group: Option<Group>,
    /// What each owner pumps, as Redis has it.
    owners: Vec<Owner>,
}

/// What one owner pumps.
#[derive(Debug, Serialize)]
struct Owner {
    name: String,
    shards: Vec<ShardId>,
    highest_epoch: u64,
    next_due: Option<UnixMillis>,
    held: usize,
}

// === impl Timers ===

impl Timers {
    /// Prints them.
    ///
    /// # Errors
    /// Redis or etcd cannot be used.
    pub async fn run(self, context: &Context) -> Result<(), Fault> {
        let group = match context.config.etcd.enabled {
            true => Some(observer(&context.config)?.overview().await.map_err(|error| of_cluster(&error))?),
            false => None,
        };
        let answer = Answer { group, owners: owners(context).await? };
        let now = context.now().await?;
        context.output.print(&answer, || text(context, &answer, now))
    }
}

async fn owners(context: &Context) -> Result<Vec<Owner>, Fault> {
    let mut owners: BTreeMap<String, Owner> = BTreeMap::new();
    for (shard, overview) in context.admin().overview().await.map_err(of_core)? {
        let name = if overview.owner.is_empty() { "nobody yet" } else { &overview.owner };
        let fresh =
            || Owner { name: name.to_owned(), shards: Vec::new(), highest_epoch: 0, next_due: None, held: 0 };
        let owner = owners.entry(name.to_owned()).or_insert_with(fresh);
        owner.shards.push(shard);
        owner.highest_epoch = owner.highest_epoch.max(overview.epoch);
        owner.next_due = [owner.next_due, overview.next_due].into_iter().flatten().min();
        owner.held += usize::from(overview.held);
    }
    Ok(owners.into_values().collect())
}

fn text(context: &Context, answer: &Answer, now: UnixMillis) -> String {
    let mut text = String::new();
    match &answer.group {
        None => text.push_str("etcd is not used: a single timer owns every shard\n\n"),
        Some(group) => {
            let columns = ["timer", "zone", "version", ">planned", ">claimed", "since", "state", "admin"];
            let mut rows = context.output.rows(&columns);
            for member in &group.members {
                let state = match (member.draining, member.hindered, member.leader) {
                    (true, _, _) => "draining",
                    (false, true, _) => "hindered",
                    (false, false, true) => "leads",
                    (false, false, false) => "serves",
                };
                rows.judged(
                    !member.draining && !member.hindered,
                    [
                        member.name.clone(),
                        member.zone.clone(),
                        member.version.clone(),
                        member.planned.to_string(),
                        member.claimed.to_string(),
                        time(UnixMillis::new(member.since_ms)),
                        state.to_owned(),
                        member.address.clone(),
                    ],
                );
            }
            let (unclaimed, misplaced) = (group.unclaimed.len(), group.misplaced.len());
            text = format!(
                "{}\n{unclaimed} shards unclaimed, {misplaced} not where the plan wants them\n\n",
                rows.text()
            );
        }
    }
    let mut rows = context.output.rows(&["owner in redis", ">shards", ">epoch", "next due", ">held"]);
    for owner in &answer.owners {
        rows.row([
            owner.name.clone(),
            owner.shards.len().to_string(),
            owner.highest_epoch.to_string(),
            owner.next_due.map_or("nothing".to_owned(), |due| time_from(due, now)),
            owner.held.to_string(),
        ]);
    }
    text + &rows.text()
}

/// Looks at the timers' group without joining it.
///
/// # Errors
/// A certificate or password that cannot be read.
pub fn observer(config: &CliConfig) -> Result<Observer, Fault> {
    let group = group(Role::Timer, "delayq-cli", &config.deployment, &config.etcd)?;
    Observer::new(&group).map_err(|error| Fault::new(&codes::CONFIG_FAULTY, error.to_string()))
}
