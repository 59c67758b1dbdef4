//! One look at a deployment, for every command that shows or judges it. A part that does not answer is named, and hides no
//! other.

mod parts;

pub use parts::{Servers, Shard, Shards, Topics};

use crate::deployment::{Context, no_topic};
use crate::failure::{NO_DEPLOYMENT, PARTIAL, UNKNOWN, message_of, of_core, unknown};
use crate::output::complain;
use delayq::admin::{Numbers, Unseen};
use delayq::protocol::ShardRanges;
use delayq::{Error, Topic, UnixMillis};
use delayq_cluster::{EndpointHealth, Overview as Fleet};
use delayq_service::Fault;

/// Which parts are looked at. What every shard says of itself is always asked: one round trip a node.
#[derive(Clone, Copy, Debug, Default)]
pub struct Want<'w> {
    /// Redis's servers, and their sentinels.
    pub servers: bool,
    /// What each shard knows of the layout, how many messages it holds, and which node has it.
    pub layouts: bool,
    /// To how many shards no timer listens.
    pub listeners: bool,
    /// The timers that etcd knows, if it is used.
    pub fleet: bool,
    /// The members of etcd, if it is used.
    pub etcd: bool,
    /// Which topics are counted.
    pub topics: Which<'w>,
    /// The policies of the topics that are counted.
    pub policies: bool,
}

/// Which topics are counted.
#[derive(Clone, Copy, Debug, Default)]
pub enum Which<'w> {
    /// None: their names are not asked either.
    #[default]
    None,
    /// Every topic, or the first so many by name.
    All(Option<usize>),
    /// These alone.
    Only(&'w [Topic]),
}

/// What was seen at one moment. A part that was not wanted is `None`.
#[derive(Debug)]
pub struct Look {
    /// The deployment, limited to the shards that answer.
    pub part: Context,
    /// Redis's servers, or why nothing can be said of them.
    pub servers: Option<Result<Servers, Error>>,
    /// The shards, or why none of them answers.
    pub shards: Result<Shards, Error>,
    /// The topics; `None` also where no shard answers.
    pub topics: Option<Result<Topics, Error>>,
    /// The timers, or why etcd does not name them.
    pub fleet: Option<Result<Fleet, Fault>>,
    /// The members of etcd, or why they cannot be asked.
    pub etcd: Option<Result<Vec<EndpointHealth>, Fault>>,
    /// The deployments that this Redis has instead, as a sentence.
    pub others: Option<String>,
}

// === impl Want ===

impl Want<'_> {
    /// All that is judged.
    pub const JUDGED: Self = Self {
        servers: true,
        layouts: true,
        listeners: true,
        fleet: true,
        etcd: true,
        topics: Which::All(None),
        policies: true,
    };
}

// === impl Look ===

impl Look {
    /// Looks. Never fails: its parts do.
    pub async fn take(context: &Context, want: Want<'_>) -> Self {
        // One after the other: what a handshake of etcd computes would be taken for the silence of Redis.
        let (part, shards, topics) = parts::stored(context, want).await;
        let servers = parts::servers(context, want).await;
        let fleet = parts::fleet(context, want).await;
        let etcd = parts::etcd(context, want).await;
        let others = match &shards {
            Err(error) if want.servers && of_core(error.clone()).code() == &NO_DEPLOYMENT => {
                context.other_namespaces().await
            }
            _ => None,
        };
        Self { part, servers, shards, topics, fleet, etcd, others }
    }

    /// The shards that answer.
    ///
    /// # Errors
    /// None does.
    pub fn shards(&self) -> Result<&Shards, Fault> {
        self.shards.as_ref().map_err(|error| of_core(error.clone()))
    }

    /// The topics.
    ///
    /// # Errors
    /// No shard answers, or one of them stopped doing so.
    pub fn topics(&self) -> Result<&Topics, Fault> {
        self.shards()?;
        let topics = self.topics.as_ref().expect("the topics were wanted");
        topics.as_ref().map_err(|error| of_core(error.clone()))
    }

    /// The topics, if each of these is among them.
    ///
    /// # Errors
    /// A topic does not exist, and which name is like it; or as of [`Self::topics`].
    pub fn known(&self, topics: &[Topic]) -> Result<&Topics, Fault> {
        let seen = self.topics()?;
        match topics.iter().find(|topic| !seen.names.contains(topic)) {
            Some(topic) => Err(unknown(no_topic(topic, &seen.names))),
            None => Ok(seen),
        }
    }

    /// Redis's clock, of the shards; zero where none answers.
    pub fn now(&self) -> UnixMillis {
        let shards = self.shards.iter().flat_map(|shards| &shards.seen);
        shards.map(|shard| shard.overview.now.millis()).max().unwrap_or(UnixMillis::new(0))
    }

    /// Whether some shards answer, and others do not.
    pub fn is_partial(&self) -> bool {
        self.shards.as_ref().is_ok_and(|shards| !shards.unseen.is_empty())
    }

    /// What is missing beside the others, a line each.
    pub fn missing(&self) -> Vec<String> {
        let unseen = self.shards.iter().flat_map(|shards| shards.unseen.iter().cloned());
        let topics = self.topics.iter().filter_map(|topics| topics.as_ref().err());
        let fleet = self.fleet.iter().filter_map(|fleet| fleet.as_ref().err());
        let topics = topics.map(|error| format!("topics: {error}"));
        unseen
            .chain(topics)
            .chain(fleet.map(|fault| format!("what etcd has: {}", message_of(fault))))
            .collect()
    }

    /// What becomes of a command that has shown the part that was seen, or could not.
    ///
    /// # Errors
    /// That parts are missing; and those that it had.
    pub fn finish(&self, shown: Result<(), Fault>) -> Result<(), Fault> {
        let missing = self.missing();
        if missing.is_empty() {
            return shown;
        }
        let missing = format!("the answer is without {}", missing.join("; without "));
        match shown {
            Ok(()) => Err(Fault::new(&PARTIAL, missing)),
            // It may be in a shard that was not asked.
            Err(fault) if fault.code() == &UNKNOWN => {
                Err(Fault::new(&PARTIAL, format!("{missing}; in the others: {}", message_of(&fault))))
            }
            Err(fault) => {
                complain(&format!("delayq: {missing}"));
                Err(fault)
            }
        }
    }
}

/// Has a command show the part of the deployment that answers.
///
/// # Errors
/// No shard answers; those of `show`; and that shards are missing, after the others were shown.
pub async fn look(
    context: &Context,
    show: impl AsyncFnOnce(&Context) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let look = Look::take(context, Want::default()).await;
    look.shards()?;
    look.finish(show(&look.part).await)
}

/// Shards that do not answer, and why.
fn line(Unseen { shards, error, .. }: &Unseen) -> String {
    let noun = if shards.len() == 1 { "shard" } else { "shards" };
    format!("{noun} {}: {error}", ShardRanges::from_iter(shards.iter().copied()))
}

/// The sum over topics.
pub fn total<'n>(numbers: impl IntoIterator<Item = &'n Numbers>) -> Numbers {
    let mut total = Numbers::default();
    numbers.into_iter().for_each(|numbers| total.add(numbers));
    total
}
