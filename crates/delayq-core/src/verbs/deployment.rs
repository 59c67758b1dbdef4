//! `layout`, `init`, `grow`, `move`, `discard`: what shards know of their deployment, how they are created and raised, and
//! how they get to another node.

use crate::call::Call;
use crate::id::NodeName;
use crate::layout::{Layout, LayoutWord, RecordedPlace};
use crate::reply::{Reply, ReplyError, Value, Words};
use crate::script::Verb;
use crate::shard::ShardId;
use serde::Serialize;

/// What a shard knows of its deployment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ShardLayout {
    /// The shard counts of the deployment, as it knows them.
    #[serde(serialize_with = "crate::layout::serialize")]
    pub layout: Layout,
    /// The number of messages that it holds: pending and dead ones of its first 100 topics.
    pub messages: u64,
    /// The node that keeps it, where several Redises keep the deployment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<NodeName>,
}

/// The outcome of changing what a shard records of its node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recorded {
    /// It was changed.
    Moved,
    /// It said so already.
    Exists,
    /// It says something else: this is its layout.
    Differs(String),
}

/// The outcome of deleting what was left behind of a shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Discarded {
    /// So many keys were there.
    Keys(u64),
    /// None: the shard has not moved from there. This is its layout.
    Kept(String),
}

/// A shard's answer about its layout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// It does not exist.
    Missing,
    /// It belongs to a deployment.
    Here(ShardLayout),
    /// It has moved to another node.
    Moved(RecordedPlace),
    /// Its answer contradicts itself: it says that it is this shard, with these counts.
    Foreign {
        /// Its layout.
        layout: String,
        /// Its own number.
        number: u64,
        /// Its shard counts.
        counts: String,
    },
}

/// The outcome of creating a shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Init {
    /// It was created.
    Created,
    /// It already existed, as requested.
    Exists,
    /// It already existed with this layout, number and these shard counts.
    Differs(String, String, String),
}

/// The outcome of raising a shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Grown {
    /// It was created.
    Created,
    /// It has followed.
    Raised,
    /// It had already followed.
    Exists,
    /// It has a newer layout: this one, if it can be read.
    Ahead(Option<Layout>),
    /// It belongs to another growth, with this layout, number and shard counts.
    Differs(String),
}

// === impl Asked ===

impl Asked {
    /// The node that has the shard by its answer; `None`: it names none.
    pub const fn node(&self) -> Option<&NodeName> {
        match self {
            Self::Here(found) => found.node.as_ref(),
            Self::Moved(place) => place.node(),
            Self::Missing | Self::Foreign { .. } => None,
        }
    }
}

/// Asks a shard what it knows, under any layout.
pub fn ask(shard: ShardId) -> Call {
    Call::new(Verb::Layout, shard)
}

/// What the shard knows.
///
/// # Errors
/// The script does not give such an answer.
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
            Ok(Asked::Here(ShardLayout { layout, messages: reply.number()?, node }))
        }
        None => Ok(Asked::Foreign { layout, number, counts }),
    }
}

/// Creates a shard of a deployment.
pub fn init(shard: ShardId, layout: &Layout) -> Call {
    of_deployment(Verb::Init, shard, layout)
}

/// The outcome.
///
/// # Errors
/// The script does not give such an answer.
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

/// Raises a shard to a layout, or creates it if that layout adds it.
pub fn grow(shard: ShardId, layout: &Layout) -> Call {
    of_deployment(Verb::Grow, shard, layout)
}

/// The outcome.
///
/// # Errors
/// The script does not give such an answer.
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

/// Changes what a shard records of its node, if it records the first of these places.
pub fn record(shard: ShardId, from: &RecordedPlace, to: &RecordedPlace) -> Call {
    Call::new(Verb::Move, shard).arg(from.to_string()).arg(to.to_string())
}

/// The outcome.
///
/// # Errors
/// The script does not give such an answer.
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

/// Deletes keys that were left behind of a shard that has moved: what follows its base in each.
pub fn discard<'a>(shard: ShardId, keys: impl IntoIterator<Item = &'a [u8]>) -> Call {
    keys.into_iter().fold(Call::new(Verb::Discard, shard), Call::arg)
}

/// The outcome.
///
/// # Errors
/// The script does not give such an answer.
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
