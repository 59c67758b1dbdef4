//! `delayq list`.

use clap::{Args, ValueEnum};
use delayq_core::{Group, ListState, TimeRange, Topic, UnixMillis};
use delayq_service::Fault;
use serde_json::Value;

use crate::deployment::Context;
use crate::failure::{of_core, usage};
use crate::listing::{json_of, table};
use crate::when::When;

/// List messages of a topic in one state, or of a group
#[derive(Debug, Args)]
pub struct List {
    /// The topic
    #[arg(required_unless_present = "group")]
    topic: Option<Topic>,
    /// The pending messages of this group, of all topics
    #[arg(long, conflicts_with_all = ["topic", "state", "from", "until"])]
    group: Option<Group>,
    /// Which of them
    #[arg(long, value_enum, default_value_t = Which::Delayed)]
    state: Which,
    /// Due, leased until or dead from this time on
    #[arg(long, value_name = "TIME")]
    from: Option<When>,
    /// Due, leased until or dead up to this time
    #[arg(long, value_name = "TIME")]
    until: Option<When>,
    /// At most so many
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    limit: u32,
}

/// The states that can be listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Which {
    /// Waiting for the due time
    Delayed,
    /// Waiting to be reserved
    Ready,
    /// Reserved
    Leased,
    /// Dead letters, the newest first
    Dead,
}

// === impl List ===

impl List {
    /// Prints them.
    ///
    /// # Errors
    /// Redis cannot be used.
    pub async fn run(self, context: &Context) -> Result<(), Fault> {
        let admin = context.admin();
        let messages = match (&self.topic, &self.group) {
            (Some(topic), _) => {
                context.known_topic(topic).await?;
                let range = range(context, self.from, self.until).await?;
                admin.list(topic, self.state.into(), range, self.limit as usize).await.map_err(of_core)?
            }
            (None, Some(group)) => admin.list_group(group, self.limit as usize).await.map_err(of_core)?.0,
            (None, None) => return Err(usage("a TOPIC or a --group is needed")),
        };
        let values: Vec<Value> = messages.iter().map(|listed| json_of(listed, false)).collect();
        context.output.print(&values, || table(context.output, &messages))
    }
}

impl From<Which> for ListState {
    fn from(which: Which) -> Self {
        match which {
            Which::Delayed => Self::Delayed,
            Which::Ready => Self::Ready,
            Which::Leased => Self::Leased,
            Which::Dead => Self::Dead { newest_first: true },
        }
    }
}

/// A range of times, relative ones by Redis's clock.
///
/// # Errors
/// Redis cannot be used, or the range ends before it begins.
pub async fn range(context: &Context, from: Option<When>, until: Option<When>) -> Result<TimeRange, Fault> {
    if from.is_none() && until.is_none() {
        return Ok(TimeRange::ALL);
    }
    let now = context.now().await?;
    let from = from.map_or(Ok(UnixMillis::new(0)), |when| when.at(now)).map_err(usage)?;
    let to = until.map_or(Ok(UnixMillis::MAX), |when| when.at(now)).map_err(usage)?;
    if from > to {
        return Err(usage("the range ends before it begins"));
    }
    Ok(TimeRange { from, to })
}
