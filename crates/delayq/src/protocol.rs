//! The protocol, for services and tools: keys, scripts, envelopes and limits, and the deployment from the view of shard
//! owners and lease holders. Applications only need this module to name the types of nested values, such as a received
//! message, or the reason why a name or a time is refused.

pub use crate::books::{BooksAt, BooksPage};
pub use crate::consumer::Received;
pub use crate::durable::Confirmation;
pub use crate::growth::Growth;
pub use crate::holder::Holder;
pub use crate::link::{
    AnyUrl, ClusterUrl, Identity, Link, SentinelSettings, SentinelUrl, mask_query, of_certificate,
};
pub use crate::listen::{Listener, Notification};
pub use crate::owner::Owner;
pub use crate::places::Places;
pub use crate::probe::Probe;
pub use crate::producer::Recorded;
pub use crate::topology::{NodeMap, NodeMapError, NodeSettings};
pub use delayq_core::again::{Again, DueRule, Expectation, ExpectedGen, OddAgain};
pub use delayq_core::codec::{CodecError, DICTIONARY_BYTES, FEWEST_SAMPLES, Unrestored};
pub use delayq_core::envelope::{ContentHash, Envelope, EnvelopeError, FORMAT, HEAD_BYTES};
pub use delayq_core::id::{NameError, NodeName, OwnId};
pub use delayq_core::identity::DeploymentId;
pub use delayq_core::keys::{Channel, Keys};
pub use delayq_core::layout::{Layout, LayoutError, Placement};
pub use delayq_core::leased::Leased;
pub use delayq_core::limits::{MAX_BYTES_A_CALL, MAX_IDS_A_CALL};
pub use delayq_core::message::{DEFAULT_PAYLOAD_BYTES, MAX_HEADER_BYTES, MAX_PAYLOAD_BYTES};
pub use delayq_core::ranges::{ShardRanges, ShardRangesError};
pub use delayq_core::record::RecordId;
pub use delayq_core::script::{Script, Scripts, Swap, Verb};
pub use delayq_core::shard::{ShardCountError, ShardId};
pub use delayq_core::time::{OddTime, UnixMicros};
#[cfg(feature = "jiff")]
pub use delayq_core::time::{OddWindow, Window};
pub use delayq_core::verbs::claim::{Claimed, is_worker};
pub use delayq_core::verbs::finish::{FinishOutcome, FinishWhich};
pub use delayq_core::verbs::forget::ForgottenTopics;
pub use delayq_core::verbs::hold::HoldAnswer;
pub use delayq_core::verbs::overview::{TopicHere, TopicsPage};
pub use delayq_core::verbs::pump::{PumpReport, PumpWord};
pub use delayq_core::verbs::reserve::{Receipt, Reservation, ReserveReport, ReserveRequest};
pub use delayq_core::verbs::settle::Release;
pub use delayq_core::verbs::survey::Survey;

/// When to pump: which shard is due, when its call must go out, and whether the clock of its Redis can be trusted.
pub mod scheduling {
    pub use crate::pumping::{LOCK, Locks, Moved, Node, Nodes, Trip};
    pub use crate::scheduling::{
        Aim, Alarm, Comparison, Found, Guard, Hold, NextRounds, NodeId, Pipeline, Rota, Round, Schedule,
        Shot, Verdict,
    };
}
