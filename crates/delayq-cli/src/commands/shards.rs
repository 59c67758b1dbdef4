//! `delayq shards`.

mod moving;

use crate::confirm::confirm;
use crate::deployment::Context;
use crate::failure::{of_core, usage};
use crate::look::{answering, finish};
use crate::output::{counted, distance};
use clap::{Args, Subcommand};
use delayq::admin::GrowthStep;
use delayq::protocol::{Layout, NodeName, ShardId};
use delayq::{Error, ShardCount};
use delayq_look::{Look, Shard, Want};
use delayq_service::Fault;
use moving::Move;
use serde_json::{Value, json};

/// Show the shards: contents, owner, epoch and next pump; add shards, or move them
#[derive(Debug, Args)]
pub struct Shards {
    /// What to do; without it, show them
    #[command(subcommand)]
    what: Option<Action>,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Add shards online
    Grow(Grow),
    /// Move shards of [[redis.nodes]] to another node online
    Move(Move),
    /// Record in every shard the name of its node, once all processes have [[redis.nodes]]
    Name,
    /// Delete what moved shards have left behind
    Clean,
}

/// Add shards online
///
/// The shard count can only grow, so it asks first. What is pending stays where it is. Repeated, it finishes an interrupted
/// growth.
#[derive(Debug, Args)]
struct Grow {
    /// The new number of shards, 2 to 4096
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(2..=4096))]
    to: u16,
    /// The node of [[redis.nodes]] that gets the new shards; refused if the configuration places one of them elsewhere
    #[arg(long, value_name = "NAME")]
    node: Option<NodeName>,
    /// Do not ask: this cannot be undone
    #[arg(long)]
    yes: bool,
}

// === impl Shards ===

impl Shards {
    /// Prints, grows or moves the shards.
    ///
    /// # Errors
    /// Redis cannot be used, the deployment does not exist, or the requested change is not possible.
    pub async fn run(self, context: &Context) -> Result<(), Fault> {
        match self.what {
            None => show(context).await,
            Some(Action::Grow(grow)) => grow.run(context).await,
            Some(Action::Move(moving)) => moving.run(context).await,
            Some(Action::Name) => moving::name(context).await,
            Some(Action::Clean) => moving::clean(context).await,
        }
    }
}

async fn show(context: &Context) -> Result<(), Fault> {
    let look = Look::take(&context.deployment, Want { layouts: true, ..Want::default() }).await;
    finish(&look, print(context, &look))
}

fn print(context: &Context, look: &Look) -> Result<(), Fault> {
    let shards = answering(look)?;
    let layout = shards.layout.as_ref().map_err(|error: &Error| of_core(error.clone()))?;
    let values: Vec<Value> = shards.seen.iter().map(Shard::json).collect();
    context.output.print(&values, || {
        let has_nodes = shards.seen.iter().any(|shard| shard.node.is_some());
        let mut columns = vec![
            "shard",
            "?>layout",
            ">messages",
            "owner",
            ">epoch",
            "next pump",
            "?>leases",
            "?>remembered",
            "?>topics",
            "clock",
        ];
        if has_nodes {
            columns.insert(1, "node");
        }
        let mut rows = context.output.rows(&columns);
        for shard in &shards.seen {
            let (overview, now) = (&shard.overview, shard.overview.now.millis());
            let node = has_nodes.then(|| shard.node.clone().unwrap_or_default());
            let number = shard.knows.as_ref().map_or(0, |knows| knows.layout.number());
            let cells = [Some(shard.id.to_string()), node].into_iter().flatten().chain([
                number.to_string(),
                shard.messages().to_string(),
                shard.owner().to_owned(),
                overview.epoch.to_string(),
                overview.next_due.map_or("nothing".to_owned(), |due| distance(due, now)),
                overview.leases.to_string(),
                overview.markers.to_string(),
                overview.topics.to_string(),
                if overview.held { "HELD" } else { "trusted" }.to_owned(),
            ]);
            rows.judged(!overview.held && follows(shard, layout), cells);
        }
        let behind = shards.seen.iter().filter(|shard| !follows(shard, layout)).count();
        let counts: Vec<String> = layout.counts().iter().map(ToString::to_string).collect();
        let through = match behind {
            0 => String::new(),
            some => format!("; {some} not up to date yet: delayq shards grow --to {}", layout.shards()),
        };
        let noun = if layout.shards().get() == 1 { "shard" } else { "shards" };
        format!("layout {}: {} {noun}{through}\n\n{}", layout.number(), counts.join(", then "), rows.text())
    })
}

fn follows(shard: &Shard, layout: &Layout) -> bool {
    shard.knows.as_ref().is_some_and(|knows| knows.layout == *layout)
}

// === impl Grow ===

impl Grow {
    async fn run(self, context: &Context) -> Result<(), Fault> {
        let to = ShardCount::new(self.to).map_err(|error| usage(error.to_string()))?;
        let now = context.admin().layout().await.map_err(of_core)?.shards();
        if let Some(node) = &self.node {
            check_node(context, node, to.shards().skip(now.get().into()))?;
        }
        if to > now {
            let added = to.get() - now.get();
            let namespace = &context.config.deployment.namespace;
            confirm(
                &format!(
                    "this adds {} to the {now} of {namespace}; shards can never be removed",
                    counted(added.into(), "shard")
                ),
                self.yes,
            )?;
        }
        let bar = context.output.progress(1);
        let progress = |step| {
            let (GrowthStep::Added { done, of } | GrowthStep::Raised { done, of }) = step;
            bar.set_length(of.into());
            bar.set_position(done.into());
        };
        let report = context.admin().shards().grow(to, progress).await;
        bar.finish_and_clear();
        let report = report.map_err(of_core)?;
        let (layout, added, raised) = (report.layout, report.added, report.raised);
        let counts: Vec<u16> = layout.counts().iter().map(|count| count.get()).collect();
        let value =
            json!({ "shards": layout.shards().get(), "layout": counts, "added": added, "raised": raised });
        context.output.print(&value, || match (added, raised) {
            (0, 0) => format!("there are already {} shards, and all are up to date", layout.shards()),
            _ => format!(
                "there are {} shards now: {added} added, {raised} updated\nrunning processes follow by \
                 themselves; set {} in the configuration soon",
                layout.shards(),
                layout.shards()
            ),
        })
    }
}

fn check_node(
    context: &Context,
    node: &NodeName,
    mut added: impl Iterator<Item = ShardId>,
) -> Result<(), Fault> {
    let nodes = context.client().nodes();
    let is_of = |shard: ShardId| nodes.and_then(|nodes| nodes.node(shard)).is_some_and(|of| of.name == *node);
    match added.find(|&shard| !is_of(shard)) {
        Some(shard) => Err(usage(format!(
            "--node: shard {shard} is not one of node {node} in [[redis.nodes]]; add it to its shards first"
        ))),
        None => Ok(()),
    }
}
