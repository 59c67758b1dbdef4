//! `layout`, `init`, `identify`, `grow`, `move`, `discard`: a shard's knowledge of its deployment, its creation and growth,
//! and its move to another node.

use crate::call::Call;
use crate::id::NodeName;
use crate::identity::DeploymentId;
use crate::layout::{Layout, LayoutWord, RecordedPlace};
use crate::reply::{Reply, ReplyError, Value, Words};
use crate::script::Verb;
use crate::shard::ShardId;
use serde::Serialize;

/// A shard's record of its deployment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ShardLayout {
    /// The shard counts of the deployment, as known to the shard.
    #[serde(serialize_with = "crate::layout::serialize")]
    pub layout: Layout,
    /// Number of messages: pending and dead messages of the first 100 topics.
    pub messages: u64,
    /// The shard's node, if several Redises share the deployment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<NodeName>,
    /// The identity of the deployment; `None` of one from before there were identities.
    #[serde(skip)]
    pub identity: Option<DeploymentId>,
}

/// The outcome of changing a shard's recorded node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recorded {
    /// Changed.
    Moved,
    /// Already recorded.
    Exists,
    /// Not changed: this other layout is recorded.
    Differs(String),
}

/// The outcome of deleting a moved shard's leftovers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Discarded {
    /// Number of deleted keys.
    Keys(u64),
    /// Nothing deleted: the shard has not moved away. Its layout.
    Kept(String),
}

/// A shard's answer about its layout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// The shard does not exist.
    Missing,
    /// The shard belongs to a deployment.
    Here(ShardLayout),
    /// The shard has moved to another node.
    Moved(RecordedPlace),
    /// A contradictory answer: the shard claims this number and these counts.
    Foreign {
        /// Its layout.
        layout: String,
        /// The number.
        number: u64,
        /// The shard counts.
        counts: String,
    },
}

/// The outcome of creating a shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Init {
    /// Created.
    Created,
    /// Already present, as requested.
    Exists,
    /// Already present with this layout, number and these shard counts.
    Differs(String, String, String),
}

/// The outcome of raising a shard to a newer layout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Grown {
    /// Created.
    Created,
    /// Raised.
    Raised,
    /// Already raised.
    Exists,
    /// The shard has a newer layout: this, if readable.
    Ahead(Option<Layout>),
    /// Part of another growth, with this layout, number and shard counts.
    Differs(String),
}

// === impl Asked ===

impl Asked {
    /// The shard's node by its answer; `None` if unnamed.
    pub const fn node(&self) -> Option<&NodeName> {
        match self {
            Self::Here(found) => found.node.as_ref(),
            Self::Moved(place) => place.node(),
            Self::Missing | Self::Foreign { .. } => None,
        }
    }
}

/// Asks a shard for its record, under any layout.
pub fn ask(shard: ShardId) -> Call {
    Call::new(Verb::Layout, shard)
}

/// Reads the shard's record.
pub fn read_asked(reply: Value, shard: ShardId) -> Result<Asked, ReplyError> {
    let mut reply = Reply::new(Verb::Layout, reply)?;
    if reply.is_empty() {
        return Ok(Asked::Missing);
    }
    let (layout, number, counts) = (reply.text()?, reply.number()?, reply.text()?);
    let found = counts.parse::<Layout>().ok().zip(layout.parse::<LayoutWord>().ok());
    let fits = |(found, word): &(Layout, LayoutWord)| {
        found.number() == word.number && number == u64::from(shard.get())
    };
    match found.filter(fits) {
        Some((_, LayoutWord { place: place @ RecordedPlace::Moved(..), .. })) => Ok(Asked::Moved(place)),
        Some((layout, LayoutWord { place, .. })) => {
            let node = place.node().cloned();
            let (messages, identity) = (reply.number()?, reply.text()?.parse().ok());
            Ok(Asked::Here(ShardLayout { layout, messages, node, identity }))
        }
        None => Ok(Asked::Foreign { layout, number, counts }),
    }
}

/// Creates a shard of a deployment.
pub fn init(shard: ShardId, layout: &Layout) -> Call {
    of_deployment(Verb::Init, shard, layout)
}

/// Reads the outcome.
pub fn read_init(reply: Value) -> Result<Init, ReplyError> {
    let text = Reply::text_of(Verb::Init, reply)?;
    let mut words = Words::new(&text);
    match words.word() {
        "created" => Ok(Init::Created),
        "exists" => Ok(Init::Exists),
        "differs" => {
            let mut word = || words.word().to_owned();
            Ok(Init::Differs(word(), word(), word()))
        }
        _ => Err(ReplyError::new(Verb::Init, &text)),
    }
}

/// Asks a shard for the identity of its deployment, and gives it this one if it has none.
pub fn identify(shard: ShardId, given: Option<DeploymentId>) -> Call {
    Call::new(Verb::Identify, shard).arg(given.map(|id| id.to_string()).unwrap_or_default())
}

/// Reads the identity.
pub fn read_identity(reply: Value) -> Result<Option<DeploymentId>, ReplyError> {
    let text = Reply::text_of(Verb::Identify, reply)?;
    match text.as_str() {
        "" => Ok(None),
        text => text.parse().map(Some).map_err(|_| ReplyError::new(Verb::Identify, text)),
    }
}

/// Raises a shard to a layout, or creates it if the layout adds it.
pub fn grow(shard: ShardId, layout: &Layout) -> Call {
    of_deployment(Verb::Grow, shard, layout)
}

/// Reads the outcome.
pub fn read_grown(reply: Value) -> Result<Grown, ReplyError> {
    let text = Reply::text_of(Verb::Grow, reply)?;
    let mut words = Words::new(&text);
    match words.word() {
        "created" => Ok(Grown::Created),
        "raised" => Ok(Grown::Raised),
        "exists" => Ok(Grown::Exists),
        "ahead" => Ok(Grown::Ahead(words.rest().split(' ').nth(1).and_then(|counts| counts.parse().ok()))),
        "differs" => Ok(Grown::Differs(words.rest().to_owned())),
        _ => Err(ReplyError::new(Verb::Grow, &text)),
    }
}

/// Changes a shard's recorded node, if `from` is recorded.
pub fn record(shard: ShardId, from: &RecordedPlace, to: &RecordedPlace) -> Call {
    Call::new(Verb::Move, shard).arg(from.to_string()).arg(to.to_string())
}

/// Reads the outcome.
pub fn read_recorded(reply: Value) -> Result<Recorded, ReplyError> {
    let text = Reply::text_of(Verb::Move, reply)?;
    let mut words = Words::new(&text);
    match words.word() {
        "moved" => Ok(Recorded::Moved),
        "exists" => Ok(Recorded::Exists),
        "differs" => Ok(Recorded::Differs(words.rest().to_owned())),
        _ => Err(ReplyError::new(Verb::Move, &text)),
    }
}

/// Deletes leftover keys of a shard that has moved, each without its base.
pub fn discard<'a>(shard: ShardId, keys: impl IntoIterator<Item = &'a [u8]>) -> Call {
    keys.into_iter().fold(Call::new(Verb::Discard, shard), Call::arg)
}

/// Reads the outcome.
pub fn read_discarded(reply: Value) -> Result<Discarded, ReplyError> {
    let text = Reply::text_of(Verb::Discard, reply)?;
    let mut words = Words::new(&text);
    match (words.word(), words.number()) {
        ("discarded", Some(keys)) => Ok(Discarded::Keys(keys)),
        ("kept", _) => Ok(Discarded::Kept(text["kept ".len()..].to_owned())),
        _ => Err(ReplyError::new(Verb::Discard, &text)),
    }
}

fn of_deployment(verb: Verb, shard: ShardId, layout: &Layout) -> Call {
    Call::new(verb, shard).under(layout.number()).number(shard.get()).arg(layout.to_string())
}
