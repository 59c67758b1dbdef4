//! `delayq dead`: dead letters.

use crate::commands::list::range;
use crate::commands::purge::kept;
use crate::confirm::confirm;
use crate::deployment::Context;
use crate::failure::{NOT_REPLAYED, of_core, unknown};
use crate::listing::{ATTEMPT, DIED, GROUP, ListingPage, REASON};
use crate::look::look;
use crate::output::{counted, time};
use clap::{Args, Subcommand};
use delayq::admin::{ListState, Listing, PurgeWhat, ReplayOptions, TimeRange};
use delayq::{Group, MessageId, Target, Topic};
use delayq_service::Fault;
use delayq_service::config::HumanDuration;
use delayq_service::when::When;
use serde_json::json;

/// List, replay and purge dead letters
#[derive(Debug, Args)]
pub struct Dead {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List dead letters with their reasons
    List {
        /// The topic
        topic: Topic,
        /// The oldest first
        #[arg(long)]
        oldest_first: bool,
        /// Only those whose reason contains this text, as delayq dead replay --reason takes them
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
        #[command(flatten)]
        page: ListingPage,
    },
    /// Replay dead letters, by id or all that match
    Replay(Replay),
    /// Delete dead letters
    Purge {
        /// The topic
        topic: Topic,
        /// Those that died up to this time; without it, all
        #[arg(long, value_name = "TIME")]
        until: Option<When>,
        /// Do not ask: they cannot be restored
        #[arg(long)]
        yes: bool,
    },
}

#[derive(Debug, Args)]
struct Replay {
    /// The topic
    topic: Topic,
    /// Their ids
    ids: Vec<MessageId>,
    /// The group of the ids
    #[arg(long, requires = "ids", conflicts_with = "all")]
    group: Option<Group>,
    /// All dead letters of the topic, or those that --reason and --limit select
    #[arg(long, conflicts_with = "ids", required_unless_present = "ids")]
    all: bool,
    /// With --all: only those whose reason contains this text
    #[arg(long, conflicts_with = "ids", value_name = "TEXT")]
    reason: Option<String>,
    /// With --all: at most this many, shard by shard, the oldest of each first
    #[arg(long, short = 'n', alias = "most", conflicts_with = "ids", value_name = "COUNT")]
    limit: Option<u64>,
    /// With --all: at most this many a second
    #[arg(long, conflicts_with = "ids", value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    rate: Option<u32>,
    /// Make them ready after this delay
    #[arg(long, value_name = "DURATION", default_value = "0s")]
    delay: HumanDuration,
}

// === impl Dead ===

impl Dead {
    /// Runs the subcommand.
    ///
    /// # Errors
    /// Redis cannot be used.
    pub async fn run(self, context: &Context) -> Result<(), Fault> {
        match self.action {
            Action::List { topic, oldest_first, reason, page } => {
                let listed = async |part: &Context| {
                    part.known_topic(&topic).await?;
                    let state = ListState::Dead { newest_first: !oldest_first };
                    let listing = Listing::Topic { topic: &topic, state, range: TimeRange::ALL };
                    let page = page.with_reason(reason);
                    page.print(part, listing, &[GROUP, DIED, ATTEMPT, REASON]).await.map(drop)
                };
                look(context, listed).await
            }
            Action::Replay(replay) => replay.run(context).await,
            Action::Purge { topic, until, yes } => {
                context.known_topic(&topic).await?;
                let (admin, range) = (context.admin(), range(context, None, until).await?);
                let dead = admin.topic(&topic).count().await.map_err(of_core)?.dead;
                let which = until.map(|_| format!(" that died up to {}", time(range.to))).unwrap_or_default();
                let what =
                    format!("this permanently deletes the dead letters of {topic}{which}: {dead} in total");
                confirm(&what, yes)?;
                let purged =
                    admin.topic(&topic).purge(PurgeWhat::Dead(range), |_| {}).await.map_err(of_core)?;
                let sentence =
                    || format!("purged {}{}", counted(purged.purged, "dead letter"), kept(purged.kept));
                context.output.print(&json!({ "purged": purged.purged, "kept": purged.kept }), sentence)
            }
        }
    }
}

// === impl Replay ===

impl Replay {
    async fn run(self, context: &Context) -> Result<(), Fault> {
        context.known_topic(&self.topic).await?;
        let admin = context.admin();
        let replayed = if self.ids.is_empty() {
            let mut options = ReplayOptions::default().delay(*self.delay);
            (options.reason, options.max_messages, options.rate) = (self.reason, self.limit, self.rate);
            admin.topic(&self.topic).replay(&options).await
        } else {
            let target = |id: &MessageId| Target { id: id.clone(), group: self.group.clone() };
            let targets: Vec<Target> = self.ids.iter().map(target).collect();
            admin.topic(&self.topic).replay_ids(&targets, *self.delay).await
        };
        let replayed = replayed.map_err(of_core)?;
        let kept = replayed.kept();
        context.output.print(&json!({ "replayed": replayed.replayed, "kept": replayed.kept }), || {
            let sentences = replayed.kept.iter().map(|(why, count)| format!("\n{count} remaining: {why}"));
            format!("replayed {}{}", counted(replayed.replayed, "dead letter"), sentences.collect::<String>())
        })?;
        let known = replayed.replayed + kept;
        if !self.ids.is_empty() && known < self.ids.len() as u64 {
            return Err(unknown(format!(
                "{} of the ids are not dead letters",
                self.ids.len() as u64 - known
            )));
        }
        if kept > 0 {
            return Err(Fault::new(&NOT_REPLAYED, format!("{} not replayed", counted(kept, "dead letter"))));
        }
        Ok(())
    }
}
