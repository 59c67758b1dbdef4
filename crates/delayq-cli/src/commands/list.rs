//! `delayq list`.

use crate::deployment::Context;
use crate::failure::{of_core, usage};
use crate::listing::{ATTEMPT, BYTES, Column, DIED, DUE, GROUP, LEASE_ENDS, ListingPage, STATE};
use crate::output::complain;
use clap::{Args, ValueEnum};
use delayq::admin::{ListState, Listing, TimeRange};
use delayq::{Group, Topic, UnixMillis};
use delayq_service::Fault;
use delayq_service::when::When;

/// List messages of a topic in one state, or of a group
///
/// Delayed messages of a topic:                 delayq list orders
/// Those of a group, in all topics or in one:   delayq list --group user-5, delayq list orders --group user-5
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct List {
    /// The topic
    #[arg(required_unless_present = "group")]
    topic: Option<Topic>,
    /// The pending messages of this group: in the topic, or in all topics
    #[arg(long, short = 'g', conflicts_with_all = ["state", "from", "until"])]
    group: Option<Group>,
    /// The state of the messages
    #[arg(long, short = 's', value_enum, default_value_t = ListedState::Delayed)]
    state: ListedState,
    /// Only messages that are due, leased until, or dead from this time on
    #[arg(long, value_name = "TIME")]
    from: Option<When>,
    /// Only messages that are due, leased until, or dead up to this time
    #[arg(long, value_name = "TIME")]
    until: Option<When>,
    #[command(flatten)]
    page: ListingPage,
}

/// The states that can be listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ListedState {
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
    /// Prints the messages.
    ///
    /// # Errors
    /// Redis cannot be used.
    pub async fn run(self, context: &Context) -> Result<(), Fault> {
        if let Some(topic) = &self.topic {
            context.known_topic(topic).await?;
        }
        let (listing, time) = match (&self.topic, &self.group) {
            (topic, Some(group)) => (Listing::Group { group, topic: topic.as_ref() }, DUE),
            (Some(topic), None) => {
                let range = range(context, self.from, self.until).await?;
                (Listing::Topic { topic, state: self.state.into(), range }, self.state.time())
            }
            (None, None) => return Err(usage("TOPIC or --group is required")),
        };
        let listed = self.page.print(context, listing, &[GROUP, STATE, time, ATTEMPT, BYTES]).await?;
        match &self.topic {
            Some(topic) if listed == 0 && self.group.is_none() && !context.output.json => {
                self.name_other_states(context, topic).await
            }
            _ => Ok(()),
        }
    }

    /// Names the states of the topic's messages, if the listed state has none.
    async fn name_other_states(&self, context: &Context, topic: &Topic) -> Result<(), Fault> {
        let numbers = context.admin().topic(topic).count().await.map_err(of_core)?;
        let states = [
            (ListedState::Delayed, "delayed", numbers.delayed),
            (ListedState::Ready, "ready", numbers.ready),
            (ListedState::Leased, "leased", numbers.leased),
            (ListedState::Dead, "dead", numbers.dead),
        ];
        let others: Vec<String> = states
            .into_iter()
            .filter(|&(state, _, count)| state != self.state && count > 0)
            .map(|(_, word, count)| format!("{count} {word} (--state {word})"))
            .collect();
        if !others.is_empty() {
            complain(&format!("{topic} has messages in other states: {}", others.join(", ")));
        }
        Ok(())
    }
}

// === impl ListedState ===

impl ListedState {
    /// The time by which messages of this state are listed.
    const fn time(self) -> Column {
        match self {
            Self::Delayed | Self::Ready => DUE,
            Self::Leased => LEASE_ENDS,
            Self::Dead => DIED,
        }
    }
}

impl From<ListedState> for ListState {
    fn from(which: ListedState) -> Self {
        match which {
            ListedState::Delayed => Self::Delayed,
            ListedState::Ready => Self::Ready,
            ListedState::Leased => Self::Leased,
            ListedState::Dead => Self::Dead { newest_first: true },
        }
    }
}

/// A range of times; relative times count from Redis's clock.
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
        return Err(usage("--from must be before --until"));
    }
    Ok(TimeRange { from, to })
}
