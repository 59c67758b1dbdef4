//! `layout`, `init`, `grow`: what shards know of their deployment, and how they are created and raised.

use crate::call::Call;
use crate::id::NodeName;
use crate::layout::{Layout, LayoutWord};
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

/// A shard's answer about its layout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// It does not exist.
    Missing,
    /// It belongs to a deployment.
    Here(ShardLayout),
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
        Some((layout, LayoutWord { node, .. })) => {
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

fn of_deployment(verb: Verb, shard: ShardId, layout: &Layout) -> Call {
    Call::new(verb, shard).under(layout.number()).number(shard.get()).arg(layout.to_string())
}
