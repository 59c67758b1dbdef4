//! `delayq dead`: dead letters.

use clap::{Args, Subcommand};
use delayq_core::{Group, ListState, Listed, MessageId, PurgeWhat, ReplayOptions, Target, Topic};
use delayq_service::Fault;
use serde_json::{Value, json};

use crate::commands::list::range;
use crate::commands::purge::kept;
use crate::deployment::Context;
use crate::failure::{of_core, refused, unknown, usage};
use crate::listing::json_of;
use crate::output::{Output, time};
use crate::when::{Span, When};

/// List, replay and purge dead letters
#[derive(Debug, Args)]
pub struct Dead {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List them with their reasons
    List {
        /// The topic
        topic: Topic,
        /// The oldest first
        #[arg(long)]
        oldest_first: bool,
        /// At most so many
        #[arg(long, default_value_t = 50)]
        limit: u32,
    },
    /// Give them another life: ids, or all that fit
    Replay(Replay),
    /// Throw them away
    Purge {
        /// The topic
        topic: Topic,
        /// Those that died up to this time; without it, all
        #[arg(long, value_name = "TIME")]
        until: Option<When>,
        /// They are gone for good: say that you mean it
        #[arg(long)]
        yes: bool,
    },
}

#[derive(Debug, Args)]
struct Replay {
    /// The topic
    topic: Topic,
    /// Their ids; without any, all that fit
    ids: Vec<MessageId>,
    /// The group of the ids
    #[arg(long, requires = "ids")]
    group: Option<Group>,
    /// Every dead letter that fits
    #[arg(long, conflicts_with = "ids", required_unless_present = "ids")]
    all: bool,
    /// Those whose reason has this text
    #[arg(long, conflicts_with = "ids", value_name = "TEXT")]
    reason: Option<String>,
    /// At most so many, the oldest first
    #[arg(long, conflicts_with = "ids", value_name = "COUNT")]
    most: Option<u64>,
    /// At most so many a second
    #[arg(long, conflicts_with = "ids", value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    rate: Option<u32>,
    /// Ready after this delay
    #[arg(long, value_name = "DURATION", default_value = "0s")]
    delay: Span,
}

// === impl Dead ===

impl Dead {
    /// Does it.
    ///
    /// # Errors
    /// Redis cannot be used.
    pub async fn run(self, context: &Context) -> Result<(), Fault> {
        let admin = context.admin();
        context.known_topic(self.action.topic()).await?;
        match self.action {
            Action::List { topic, oldest_first, limit } => {
                let state = ListState::Dead { newest_first: !oldest_first };
                let all = delayq_core::TimeRange::ALL;
                let dead = admin.list(&topic, state, all, limit as usize).await.map_err(of_core)?;
                let values: Vec<Value> = dead.iter().map(|listed| json_of(listed, false)).collect();
                context.output.print(&values, || table(context.output, &dead))
            }
            Action::Replay(replay) => replay.run(context).await,
            Action::Purge { topic, until, yes } => {
                if !yes {
                    return Err(usage("purged dead letters are gone for good; say --yes"));
                }
                let range = range(context, None, until).await?;
                let purged = admin.purge(&topic, PurgeWhat::Dead(range), |_| {}).await.map_err(of_core)?;
                let sentence = || format!("purged {} dead letters{}", purged.purged, kept(purged));
                context.output.print(&json!({ "purged": purged.purged, "kept": purged.kept }), sentence)
            }
        }
    }
}

impl Action {
    const fn topic(&self) -> &Topic {
        match self {
            Self::List { topic, .. } | Self::Purge { topic, .. } | Self::Replay(Replay { topic, .. }) => {
                topic
            }
        }
    }
}

// === impl Replay ===

impl Replay {
    async fn run(self, context: &Context) -> Result<(), Fault> {
        let admin = context.admin();
        let replayed = if self.ids.is_empty() {
            let options = ReplayOptions {
                reason: self.reason,
                most: self.most,
                delay: *self.delay,
                rate: self.rate,
                ..ReplayOptions::default()
            };
            admin.replay(&self.topic, &options).await
        } else {
            let target = |id: &MessageId| Target { id: id.clone(), group: self.group.clone() };
            let targets: Vec<Target> = self.ids.iter().map(target).collect();
            admin.replay_ids(&self.topic, &targets, *self.delay).await
        };
        let replayed = replayed.map_err(of_core)?;
        let kept = replayed.kept();
        context.output.print(&json!({ "replayed": replayed.replayed, "kept": replayed.kept }), || {
            let sentences = replayed.kept.iter().map(|(why, count)| format!("\n{count} stay dead: {why}"));
            format!("{} dead letters live again{}", replayed.replayed, sentences.collect::<String>())
        })?;
        let known = replayed.replayed + kept;
        if !self.ids.is_empty() && known < self.ids.len() as u64 {
            return Err(unknown(format!("{} of the ids are no dead letters", self.ids.len() as u64 - known)));
        }
        if kept > 0 {
            return Err(refused(format!("{kept} dead letters stay dead: purge them, or put them again")));
        }
        Ok(())
    }
}

fn table(output: Output, dead: &[Listed]) -> String {
    if dead.is_empty() {
        return "no dead letters".to_owned();
    }
    let mut rows = output.rows(&["id", "died", ">attempts", "group", "reason"]);
    for listed in dead {
        let id = listed.id.to_string();
        match &listed.envelope {
            Ok(envelope) => rows.row([
                id,
                time(envelope.at),
                envelope.attempt.to_string(),
                envelope.group.as_ref().map(ToString::to_string).unwrap_or_default(),
                envelope.reason.clone().unwrap_or_default(),
            ]),
            Err(error) => rows.row([id, String::new(), String::new(), String::new(), error.to_string()]),
        }
    }
    rows.text()
}
