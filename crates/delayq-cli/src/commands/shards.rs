//! `delayq shards`.

use clap::{Args, Subcommand};
use delayq_core::{GrowthStep, Overview, ShardCount, ShardId, ShardLayout};
use delayq_service::Fault;
use indicatif::ProgressBar;
use serde::Serialize;
use serde_json::json;

use crate::deployment::Context;
use crate::failure::{of_core, usage};
use crate::output::time_from;

/// The shards: what each holds, owner, epoch, next due time; and how to get more
#[derive(Debug, Args)]
pub struct Shards {
    /// What to do; without it, show them
    #[command(subcommand)]
    what: Option<What>,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Get more shards, while everything goes on
    Grow(Grow),
}

/// Gets more shards, while everything goes on. They never become fewer again. Repeating it finishes a growth that
/// was interrupted.
#[derive(Debug, Args)]
struct Grow {
    /// How many there are to be, 2 to 4096
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(2..=4096))]
    to: u16,
}

#[derive(Serialize)]
struct Line {
    shard: ShardId,
    #[serde(flatten)]
    knows: ShardLayout,
    #[serde(flatten)]
    overview: Overview,
}

// === impl Shards ===

impl Shards {
    /// Prints them, or grows them.
    ///
    /// # Errors
    /// Redis cannot be used, the deployment is not there, or cannot grow so.
    pub async fn run(self, context: &Context) -> Result<(), Fault> {
        match self.what {
            None => show(context).await,
            Some(What::Grow(grow)) => grow.run(context).await,
        }
    }
}

async fn show(context: &Context) -> Result<(), Fault> {
    let overviews = context.admin().overview().await.map_err(of_core)?;
    let shards: Vec<ShardId> = overviews.iter().map(|(shard, _)| *shard).collect();
    let mut lines = Vec::with_capacity(shards.len());
    for ((shard, overview), knows) in overviews.into_iter().zip(context.client.shard_layouts(&shards).await) {
        let knows =
            knows.map_err(of_core)?.ok_or(delayq_core::Error::Uninitialised(shard)).map_err(of_core)?;
        lines.push(Line { shard, knows, overview });
    }
    let layout = context.client.layout().await.map_err(of_core)?;
    context.output.print(&lines, || {
        let columns = [
            "shard",
            ">layout",
            ">messages",
            "owner",
            ">epoch",
            "next due",
            ">leases",
            ">remembered",
            ">topics",
            "clock",
        ];
        let mut rows = context.output.rows(&columns);
        for Line { shard, knows, overview } in &lines {
            let now = overview.now.millis();
            rows.judged(
                !overview.held && knows.layout == layout,
                [
                    shard.to_string(),
                    knows.layout.number().to_string(),
                    knows.messages.to_string(),
                    if overview.owner.is_empty() { "nobody yet".to_owned() } else { overview.owner.clone() },
                    overview.epoch.to_string(),
                    overview.next_due.map_or("nothing".to_owned(), |due| time_from(due, now)),
                    overview.leases.to_string(),
                    overview.markers.to_string(),
                    overview.topics.to_string(),
                    if overview.held { "HELD" } else { "trusted" }.to_owned(),
                ],
            );
        }
        let behind = lines.iter().filter(|line| line.knows.layout != layout).count();
        let counts: Vec<String> = layout.counts().iter().map(ToString::to_string).collect();
        let through = match behind {
            0 => String::new(),
            some => format!("; {some} have not followed yet: delayq shards grow --to {}", layout.shards()),
        };
        format!("layout {}: {} shards{through}\n\n{}", layout.number(), counts.join(", then "), rows.text())
    })
}

// === impl Grow ===

impl Grow {
    async fn run(self, context: &Context) -> Result<(), Fault> {
        let to = ShardCount::new(self.to).map_err(|error| usage(error.to_string()))?;
        let bar = if context.output.lively { ProgressBar::new(1) } else { ProgressBar::hidden() };
        let progress = |step| {
            let (GrowthStep::Added { done, of } | GrowthStep::Raised { done, of }) = step;
            bar.set_length(of.into());
            bar.set_position(done.into());
        };
        let report = context.admin().grow(to, progress).await;
        bar.finish_and_clear();
        let report = report.map_err(of_core)?;
        let (layout, added, raised) = (report.layout, report.added, report.raised);
        let counts: Vec<u16> = layout.counts().iter().map(|count| count.get()).collect();
        let value =
            json!({ "shards": layout.shards().get(), "layout": counts, "added": added, "raised": raised });
        context.output.print(&value, || match (added, raised) {
            (0, 0) => format!("there are {} shards already, and all have followed", layout.shards()),
            _ => format!(
                "there are {} shards now: {added} added, {raised} followed\n\
                 running processes follow by themselves; put {} into their configuration when it suits",
                layout.shards(),
                layout.shards()
            ),
        })
    }
}
