//! `delayq timers`.

use crate::deployment::Context;
use crate::look::{answering, finish};
use crate::output::{counted, distance, time};
use clap::{Args, Subcommand};
use delayq::UnixMillis;
use delayq::protocol::is_worker;
use delayq_cluster::Overview as Fleet;
use delayq_look::{Look, Owner, Want, drained, owners, timers};
use delayq_service::Fault;
use state::state;

mod drain;
mod state;

/// Show the timers and the shards they own; or drain one
///
/// The members as registered in etcd, and the owners as recorded in Redis.
#[derive(Debug, Args)]
pub struct Timers {
    /// What to do; without it, show them
    #[command(subcommand)]
    what: Option<Action>,
}

#[derive(Debug, Subcommand)]
enum Action {
    Drain(drain::Drain),
    Undrain(drain::Undrain),
}

// === impl Timers ===

impl Timers {
    /// Prints the timers, or drains or undrains a timer.
    ///
    /// # Errors
    /// Redis or etcd cannot be used; the timer does not exist; no other timer could take the shards; or the timer kept
    /// the shards for too long.
    pub async fn run(self, context: &Context) -> Result<(), Fault> {
        match self.what {
            None => show(context).await,
            Some(Action::Drain(drain)) => drain.run(context).await,
            Some(Action::Undrain(undrain)) => undrain.run(context).await,
        }
    }
}

async fn show(context: &Context) -> Result<(), Fault> {
    let look = Look::take(&context.deployment, Want { fleet: true, ..Want::default() }).await;
    finish(&look, print(context, &look))
}

fn print(context: &Context, look: &Look) -> Result<(), Fault> {
    let owners = owners(&answering(look)?.seen);
    context.output.print(&timers(look, &owners), || text(context, look, &owners))
}

/// The drains of operators, a line each.
fn drains(fleet: &Fleet) -> String {
    fleet.drains.iter().map(|drain| format!("{}\n", drained(drain))).collect()
}

fn pumped(owners: &[Owner], name: &str) -> usize {
    owners.iter().filter(|owner| owner.name == name).map(|owner| owner.shards.len()).sum()
}

fn text(context: &Context, look: &Look, owners: &[Owner]) -> String {
    let (mut text, now) = (String::new(), look.now());
    match &look.fleet {
        None if !owners.is_empty() && owners.iter().all(|owner| is_worker(&owner.name)) => {
            text.push_str(
                "no etcd: every shard was last claimed by a worker that pumps, none by a timer\n\n",
            );
        }
        None => text.push_str("no etcd: a single timer owns every shard\n\n"),
        Some(Err(_)) => text.push_str("the timers in etcd cannot be read\n\n"),
        Some(Ok(fleet)) => {
            let columns = ["timer", "?version", ">planned", ">pumped", "since", "state", "?admin"];
            let mut rows = context.output.rows(&columns);
            for member in &fleet.members {
                let pumped = pumped(owners, &member.name);
                rows.judged(
                    member.can_take(),
                    [
                        member.name.clone(),
                        member.version.clone(),
                        member.planned.to_string(),
                        pumped.to_string(),
                        time(UnixMillis::new(member.since_ms)),
                        state(member, pumped).to_owned(),
                        member.address.clone(),
                    ],
                );
            }
            let unplanned = counted(fleet.unplanned.len() as u64, "shard");
            text = format!("{}\n{unplanned} planned for no timer\n{}\n", rows.text(), drains(fleet));
        }
    }
    let mut rows = context.output.rows(&["owner in redis", ">shards", ">epoch", "next pump", ">held"]);
    for owner in owners {
        rows.row([
            owner.name.clone(),
            owner.shards.len().to_string(),
            owner.highest_epoch.to_string(),
            owner.next_pump.map_or("nothing".to_owned(), |due| distance(due, now)),
            owner.held.to_string(),
        ]);
    }
    text + &rows.text()
}
