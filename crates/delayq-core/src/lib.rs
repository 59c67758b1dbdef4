//! The delay queue's protocol on Redis: keys, scripts, envelope and client.

mod admin;
mod backoff;
mod client;
mod clock;
mod codec;
mod consumer;
mod envelope;
mod error;
mod gather;
mod id;
mod keys;
mod link;
mod listen;
mod message;
mod payload;
mod producer;
mod reply;
mod script;
mod server;
mod shard;
#[cfg(feature = "spool")]
mod spool;
mod time;
mod verbs;

pub use admin::{Admin, PurgeWhat, ReplayOptions, TimeRange};
pub use backoff::Backoff;
pub use client::{Client, MAX_BYTES_A_CALL, MAX_IDS_A_CALL, Reference, Settings, UnixMicros};
pub use codec::{Codec, CodecError, DICTIONARY_BYTES, FEWEST_SAMPLES};
pub use consumer::{Consumer, ConsumerOptions, Delivery};
pub use envelope::{Envelope, EnvelopeError, FORMAT, HEAD_BYTES, State};
pub use error::{Advice, Error, Fate};
pub use id::{Group, MessageId, NameError, Namespace, OwnId, Topic};
pub use keys::{Channel, Keys};
pub use link::LinkSettings;
pub use listen::{Heard, Listener};
pub use message::{DEFAULT_PAYLOAD_BYTES, Due, MAX_HEADER_BYTES, MAX_PAYLOAD_BYTES, Message, MessageError};
pub use payload::Trained;
pub use producer::{GroupTally, Producer, ProducerOptions, Put, PutError, Target};
pub use script::{Script, Scripts, Swap, Verb};
pub use server::ServerFacts;
pub use shard::{ShardCount, ShardCountError, ShardId};
#[cfg(feature = "spool")]
pub use spool::{
    RecordError, Rejected, Replay, Spool, SpoolError, SpoolReader, SpoolRecord, SpoolSettings, SpoolStats,
    Spooled, salvage_spool,
};
pub use time::UnixMillis;
pub use verbs::{
    CancelOutcome, Claimed, GroupStep, HoldAnswer, ListPage, ListState, Listed, Numbers, Overview, Policy,
    PumpReport, PumpWord, PutOutcome, Receipt, Release, Reschedule, RescheduleOutcome, Reservation,
    ReserveReport, ReserveRequest, Settled, ShiftStep, Slot, TopicSettings,
};
