//! `delayq shards move`, `name` and `clean`: from a single Redis to several, and from several to more.

use crate::confirm::confirm;
use crate::deployment::Context;
use crate::failure::of_core;
use crate::output::counted;
use clap::Args;
use delayq::protocol::{NodeName, ShardId, ShardRanges};
use delayq_service::Fault;
use serde_json::json;
use std::collections::BTreeSet;

/// Move shards to another node online
///
/// The node is a replica of the one that has them until then, and is in the configuration of every process. Repeated, it
/// finishes an interrupted move.
#[derive(Debug, Args)]
pub(super) struct Move {
    /// Which shards, as ranges with both ends: 8-15
    ranges: ShardRanges,
    /// The node of [[redis.nodes]] that they move to
    #[arg(long, value_name = "NAME")]
    to: NodeName,
    /// Return the shards of an interrupted move to their old node, unless the new one already serves them
    #[arg(long)]
    back: bool,
    /// Do not ask: the node is promoted, and stops being a replica
    #[arg(long)]
    yes: bool,
}

// === impl Move ===

impl Move {
    pub(super) async fn run(self, context: &Context) -> Result<(), Fault> {
        let Self { ranges: shards, to, back, yes } = self;
        let all: BTreeSet<ShardId> = shards.shards().collect();
        if back {
            let back = context.admin().shards().take_back(&all, &to).await.map_err(of_core)?;
            return context.output.print(&json!({ "taken_back": back }), || {
                format!("{} taken back", counted(back as u64, "shard"))
            });
        }
        let namespace = &context.config.deployment.namespace;
        let asked = format!(
            "this moves shards {shards} of {namespace} to node {to}, which stops being a replica: making it \
             a replica again would lose them"
        );
        confirm(&asked, yes)?;
        let report = context.admin().shards().move_to(&all, &to, |_| {}).await.map_err(of_core)?;
        let from = report.from.as_ref();
        let value = json!({
            "from": from, "to": to, "moved": report.moved, "away_ms": report.away.as_millis() as u64,
            "resumed": report.resumed,
            "not_written": report.not_written,
        });
        context.output.print(&value, || {
            let Some(from) = from else { return format!("node {to} already serves shards {shards}") };
            let since =
                if report.resumed { ", plus the time since an earlier move was interrupted" } else { "" };
            let mut text = format!(
                "node {to} serves shards {shards} now: {} moved from {from}, unavailable for {} \
                 ms{since}\nrunning processes follow by themselves; update [[redis.nodes]] soon, then \
                 delete the old copies: delayq shards clean",
                report.moved,
                report.away.as_millis(),
            );
            if let Some(why) = &report.not_written {
                text += &format!(
                    "\nNOTE: node {to} could not write its configuration ({why}): make sure that the node \
                     does not start as a replica again, which would delete its data"
                );
            }
            text
        })
    }
}

pub(super) async fn name(context: &Context) -> Result<(), Fault> {
    let named = context.admin().shards().name_all().await.map_err(of_core)?;
    context.output.print(&json!({ "named": named }), || match named {
        0 => "every shard already records its node".to_owned(),
        some => format!(
            "{} now record their node: a process without [[redis.nodes]] is refused",
            counted(some as u64, "shard")
        ),
    })
}

pub(super) async fn clean(context: &Context) -> Result<(), Fault> {
    let deleted = context.admin().shards().discard_moved(|_| {}).await.map_err(of_core)?;
    context.output.print(&json!({ "deleted": deleted }), || match deleted.is_empty() {
        true => "nothing to delete".to_owned(),
        false => {
            let lines: Vec<String> =
                deleted.iter().map(|(node, keys)| format!("{keys} keys deleted at node {node}")).collect();
            lines.join("\n")
        }
    })
}
