//! `delayq timers drain` and `undrain`.

use super::state::state;
use crate::deployment::Context;
use crate::failure::{DRAIN_UNFINISHED, NOBODY_LEFT, of_core, unknown};
use crate::fleet::operator;
use crate::output::{complain, counted, duration};
use clap::Args;
use delayq::protocol::ShardId;
use delayq_cluster::{DrainOutcome, Operator, Overview, UndrainOutcome};
use delayq_look::of_cluster;
use delayq_service::Fault;
use delayq_service::config::HumanDuration;
use serde_json::json;
use std::time::{Duration, Instant};
use tokio::time::sleep;

const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Move all shards from a running timer to the others, and keep it without any
///
/// The other timers take over the shards, as they do when a timer stops, and no message is late. The drained timer keeps
/// running without shards until `delayq timers undrain NAME`, so that you can take its host down, or inspect it, without
/// haste.
///
/// The drain belongs to the timer's name: it survives a restart of the timer, a change of leader and the end of this
/// command. A timer without `[timer] name` has a different name after a restart, and is then no longer drained.
#[derive(Debug, Args)]
pub(super) struct Drain {
    /// The timer's name, as `delayq timers` shows it
    name: String,
    /// The reason, shown by `delayq timers`
    #[arg(long, value_name = "TEXT", default_value = "")]
    reason: String,
    /// Do not wait until its shards are handed over
    #[arg(long)]
    no_wait: bool,
    /// How long to wait; the drain stays in force beyond it
    #[arg(long, value_name = "DURATION", default_value = "60s", conflicts_with = "no_wait")]
    deadline: HumanDuration,
    /// Drain even if no other timer can take the shards, so that none would pump them
    #[arg(long)]
    force: bool,
}

/// Give a drained timer shards again
///
/// If the timer runs, it gets its share at once. For a timer that is gone for good, this removes the drain.
#[derive(Debug, Args)]
pub(super) struct Undrain {
    /// The timer's name, as `delayq timers` shows it
    name: String,
}

struct Departing {
    name: String,
    /// The shards that the timer pumped before the drain.
    held: Vec<ShardId>,
}

// === impl Drain ===

impl Drain {
    pub(super) async fn run(self, context: &Context) -> Result<(), Fault> {
        let Self { name, reason, .. } = &self;
        let operator = operator(&context.config)?;
        let departing = Departing::of(name, context).await?;
        let outcome = operator.drain(name, reason, self.force).await.map_err(|error| of_cluster(&error))?;
        let done = match outcome {
            DrainOutcome::Drained => "drained",
            DrainOutcome::Already => "already_drained",
            DrainOutcome::Unknown => return Err(no_timer(name, &overview(&operator).await?)),
            DrainOutcome::NobodyLeft => return Err(nobody_left(name, &overview(&operator).await?)),
        };
        let started = Instant::now();
        let untaken = match self.no_wait {
            true => 0,
            false => self.wait(context, &operator, &departing, started).await? as u64,
        };
        let took = started.elapsed();
        let mut value =
            json!({ "name": name, "done": done, "waited": !self.no_wait, "untaken_shards": untaken });
        value["took_ms"] = (took.as_millis() as u64).into();
        context.output.print(&value, || {
            let was = if outcome == DrainOutcome::Already { "was drained already" } else { "is drained" };
            let held = counted(departing.held.len() as u64, "shard");
            let moved = match (self.no_wait, departing.held.len()) {
                (true, _) => format!("{held} on their way"),
                (false, 0) => "no shards".to_owned(),
                (false, _) if untaken > 0 => {
                    format!("{untaken} of {held} released, but no other timer takes them")
                }
                (false, _) => format!("{held} handed over in {}", duration(took)),
            };
            format!("{name} {was}: {moved}\nto give it shards again: delayq timers undrain {name}")
        })
    }

    /// Waits until no shard is planned for the timer, and other timers, if any, own the timer's shards in Redis.
    /// Returns the number of shards that no timer takes.
    async fn wait(
        &self,
        context: &Context,
        operator: &Operator,
        departing: &Departing,
        started: Instant,
    ) -> Result<usize, Fault> {
        let all = departing.held.len() as u64;
        let bar = context.output.progress(all);
        let mut shown = None;
        loop {
            let fleet = overview(operator).await?;
            let left = departing.left(context, &fleet).await as u64;
            if left == 0 {
                bar.finish_and_clear();
                return Ok(departing.untaken(&fleet).count());
            }
            bar.set_position(all.saturating_sub(left));
            if shown.replace(left) != Some(left) && !context.output.lively && !context.output.json {
                complain(&format!("{} of {all} not handed over yet", counted(left, "shard")));
            }
            if started.elapsed() >= *self.deadline {
                bar.finish_and_clear();
                let left = counted(left, "shard");
                let message = format!("{}: {left} not handed over within {}", self.name, self.deadline);
                return Err(Fault::new(&DRAIN_UNFINISHED, message));
            }
            sleep(POLL_INTERVAL).await;
        }
    }
}

// === impl Undrain ===

impl Undrain {
    pub(super) async fn run(self, context: &Context) -> Result<(), Fault> {
        let name = &self.name;
        let operator = operator(&context.config)?;
        let outcome = operator.undrain(name).await.map_err(|error| of_cluster(&error))?;
        let (done, text) = match outcome {
            UndrainOutcome::Undrained => ("undrained", "undrained: it gets shards again while it runs"),
            UndrainOutcome::NotDrained => ("not_drained", "was not drained"),
            UndrainOutcome::Unknown => return Err(no_timer(name, &overview(&operator).await?)),
        };
        context.output.print(&json!({ "name": name, "done": done }), || format!("{name} {text}"))
    }
}

// === impl Departing ===

impl Departing {
    async fn of(name: &str, context: &Context) -> Result<Self, Fault> {
        let all = context.admin().shards().overview().await.map_err(of_core)?;
        let held = all.into_iter().filter(|(_, overview)| overview.owner == name).map(|(shard, _)| shard);
        Ok(Self { name: name.to_owned(), held: held.collect() })
    }

    /// Shards still planned for the timer, or without a new owner in Redis.
    async fn left(&self, context: &Context, fleet: &Overview) -> usize {
        let planned = fleet.members.iter().filter(|member| member.name == self.name);
        let planned = planned.map(|member| member.planned).sum();
        if fleet.heirs(&self.name).next().is_none() {
            return planned;
        }
        let overviews = context.admin().shards().overview_of(&self.held).await;
        let still = |seen: &Result<delayq::admin::Overview, _>| !matches!(seen, Ok(overview) if overview.owner != self.name);
        planned.max(overviews.iter().filter(|seen| still(seen)).count())
    }

    /// The shards of the drained timer that are planned for no timer.
    fn untaken(&self, fleet: &Overview) -> impl Iterator<Item = ShardId> {
        fleet.unplanned.iter().copied().filter(|shard| self.held.contains(shard))
    }
}

async fn overview(operator: &Operator) -> Result<Overview, Fault> {
    operator.overview().await.map_err(|error| of_cluster(&error))
}

fn no_timer(name: &str, fleet: &Overview) -> Fault {
    let mut names: Vec<&str> = fleet.members.iter().map(|member| member.name.as_str()).collect();
    names.sort_unstable();
    unknown(match names.as_slice() {
        [] => format!("no timer {name}: no timer is registered in etcd"),
        names => format!("no timer {name}; registered in etcd: {}", names.join(", ")),
    })
}

fn nobody_left(name: &str, fleet: &Overview) -> Fault {
    let others = fleet.members.iter().filter(|member| member.name != name);
    let others: Vec<String> =
        others.map(|member| format!("{} is {}", member.name, state(member, 0))).collect();
    let others = if others.is_empty() { "no other timer".to_owned() } else { others.join(", ") };
    Fault::new(&NOBODY_LEFT, format!("{name} is the last timer that can hold shards: {others}"))
}
