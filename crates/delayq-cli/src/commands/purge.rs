//! `delayq purge`.

use clap::{Args, ValueEnum};
use delayq_core::{PurgeWhat, Purged, Topic};
use delayq_service::Fault;
use indicatif::ProgressBar;
use serde_json::json;

use crate::commands::list::range;
use crate::deployment::Context;
use crate::failure::{of_core, usage};
use crate::when::When;

/// Throw pending messages of a topic away
///
/// In bounded steps; interrupted, it is safe to repeat.
#[derive(Debug, Args)]
pub struct Purge {
    /// The topic
    topic: Topic,
    /// Which of them; dead letters: see delayq dead purge
    #[arg(long, value_enum, default_value_t = Which::Delayed)]
    state: Which,
    /// Due from this time on
    #[arg(long, value_name = "TIME")]
    from: Option<When>,
    /// Due up to this time
    #[arg(long, value_name = "TIME")]
    until: Option<When>,
    /// They are gone for good: say that you mean it
    #[arg(long)]
    yes: bool,
}

/// What can be thrown away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Which {
    /// Waiting for the due time
    Delayed,
    /// Waiting to be reserved
    Ready,
}

// === impl Purge ===

impl Purge {
    /// Does it.
    ///
    /// # Errors
    /// Redis cannot be used.
    pub async fn run(self, context: &Context) -> Result<(), Fault> {
        if !self.yes {
            return Err(usage("purged messages are gone for good; say --yes"));
        }
        context.known_topic(&self.topic).await?;
        let what = match self.state {
            Which::Delayed => PurgeWhat::Delayed(range(context, self.from, self.until).await?),
            Which::Ready if self.from.is_some() || self.until.is_some() => {
                return Err(usage("--from and --until are for --state delayed"));
            }
            Which::Ready => PurgeWhat::Ready,
        };
        let bar = if context.output.lively { ProgressBar::new_spinner() } else { ProgressBar::hidden() };
        let purged = context.admin().purge(&self.topic, what, |so_far| bar.set_position(so_far)).await;
        bar.finish_and_clear();
        let purged = purged.map_err(of_core)?;
        let topic = &self.topic;
        let value = json!({ "topic": topic, "purged": purged.purged, "kept": purged.kept });
        context.output.print(&value, || format!("purged {} of {topic}{}", purged.purged, kept(purged)))
    }
}

/// What a purge had to leave, to be said behind what it threw away.
pub fn kept(purged: Purged) -> String {
    match purged.kept {
        0 => String::new(),
        kept => {
            format!("; kept {kept} that are of a later format, or have a key of the wrong type in the way")
        }
    }
}
