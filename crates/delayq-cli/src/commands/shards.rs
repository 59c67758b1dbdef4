//! `delayq shards`.

use clap::Args;
use delayq_core::{Overview, ShardId};
use delayq_service::Fault;
use serde::Serialize;

use crate::deployment::Context;
use crate::failure::of_core;
use crate::output::time_from;

/// The shards: owner, epoch, next due time, as Redis has them.
#[derive(Debug, Args)]
pub struct Shards {}

#[derive(Serialize)]
struct Line {
    shard: ShardId,
    #[serde(flatten)]
    overview: Overview,
}

// === impl Shards ===

impl Shards {
    /// Prints them.
    ///
    /// # Errors
    /// Redis cannot be used, or the deployment is not there.
    pub async fn run(self, context: &Context) -> Result<(), Fault> {
        let overviews = context.admin().overview().await.map_err(of_core)?;
        let lines: Vec<Line> =
            overviews.into_iter().map(|(shard, overview)| Line { shard, overview }).collect();
        context.output.print(&lines, || {
            let columns =
                ["shard", "owner", ">epoch", "next due", ">leases", ">remembered", ">topics", "clock"];
            let mut rows = context.output.rows(&columns);
            for Line { shard, overview } in &lines {
                let now = overview.now.millis();
                rows.judged(
                    !overview.held,
                    [
                        shard.to_string(),
                        if overview.owner.is_empty() {
                            "nobody yet".to_owned()
                        } else {
                            overview.owner.clone()
                        },
                        overview.epoch.to_string(),
                        overview.next_due.map_or("nothing".to_owned(), |due| time_from(due, now)),
                        overview.leases.to_string(),
                        overview.markers.to_string(),
                        overview.topics.len().to_string(),
                        if overview.held { "HELD" } else { "trusted" }.to_owned(),
                    ],
                );
            }
            rows.text()
        })
    }
}
