//! The delay queue's protocol on Redis: keys, scripts, envelope and client.
//!
//! A [`Producer`] puts messages that are due at a time, cancels and reschedules them. A timer (`delayq-timer`, or
//! `delayq up` for trying) moves what is due to its ready queue. A [`Consumer`] reserves what is ready and settles it;
//! or `delayq-forwarder` delivers it into a message queue. An [`Admin`] looks.
//!
//! ```no_run
//! use delayq_core::{Client, Consumer, ConsumerOptions, Message, Producer, ProducerOptions, Settings, Topic};
//! use std::time::Duration;
//!
//! # async fn cancel_if_unpaid(_: &[u8]) -> Result<(), std::io::Error> { Ok(()) }
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! let client = Client::new(Settings::new("redis://127.0.0.1:6379"));
//! client.check_server().await?;
//!
//! let orders = Topic::new("orders")?;
//! let producer = Producer::start(client.clone(), ProducerOptions::default());
//! let message = Message::new(orders.clone(), r#"{"order":17}"#)
//!     .after(Duration::from_secs(30 * 60))
//!     .id("order-17")?
//!     .group("user-5")?;
//! producer.put(message).await?;
//!
//! let mut consumer = Consumer::start(client, ConsumerOptions::new([orders]));
//! while let Some(delivery) = consumer.next().await {
//!     match cancel_if_unpaid(&delivery.envelope.payload).await {
//!         Ok(()) => delivery.ack().await?,
//!         Err(error) => delivery.release(None, &error.to_string()).await?,
//!     };
//! }
//! # Ok(())
//! # }
//! ```
//!
//! The examples are short, and run in tests: `order_timeout` (an HTTP service that cancels unpaid orders), `reminder`
//! (appointments that move, patients that leave) and `webhook_retry` (back-off, dead letters).
//!
//! # What a call answers
//!
//! A refusal is a value ([`PutOutcome::Conflict`], [`CancelOutcome::Leased`]); a fault is an [`Error`], and says whether
//! the call was carried out ([`Error::fate`]): not applied, or unknown. Every call may be repeated with the same id.
//!
//! # Features
//!
//! * `spool`: writes that cannot reach Redis go to a spool on this host's disk, which `delayq-compensator` replays.

mod admin;
mod backoff;
mod client;
mod clock;
mod codec;
mod consumer;
mod envelope;
mod error;
mod follow;
mod gather;
mod growing;
mod id;
mod keys;
mod layout;
mod link;
mod listen;
mod message;
mod password;
mod payload;
mod placing;
mod policy;
mod producer;
mod reply;
mod script;
mod server;
mod shard;
#[cfg(feature = "spool")]
mod spool;
mod spread;
mod time;
mod turns;
mod verbs;

pub use admin::{
    Admin, Audit, Drift, Finding, FindingKind, PurgeWhat, Repaired, ReplayOptions, TimeRange, TopicDeletion,
    Uncounted,
};
pub use backoff::Backoff;
pub use client::{Client, MAX_BYTES_A_CALL, MAX_IDS_A_CALL, Reference, Settings, UnixMicros};
pub use codec::{Codec, CodecError, DICTIONARY_BYTES, FEWEST_SAMPLES};
pub use consumer::{Consumer, ConsumerOptions, Delivery};
pub use envelope::{Envelope, EnvelopeError, FORMAT, HEAD_BYTES, State};
pub use error::{Advice, Error, Fate};
pub use growing::{GrowthReport, GrowthStep};
pub use id::{Group, MessageId, NameError, Namespace, OwnId, Topic};
pub use keys::{Channel, Keys};
pub use layout::{Growth, Layout, LayoutError};
pub use link::{LinkSettings, mask_query};
pub use listen::{Heard, Listener};
pub use message::{DEFAULT_PAYLOAD_BYTES, Due, MAX_HEADER_BYTES, MAX_PAYLOAD_BYTES, Message, MessageError};
pub use password::Password;
pub use payload::{Trained, Unrestored};
pub use policy::{Policy, PolicySetting, Repeats};
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
    CancelOutcome, Claimed, HoldAnswer, ListState, Listed, Numbers, Overview, PumpReport, PumpWord, Purged,
    PutOutcome, Receipt, Release, Replayed, Reschedule, RescheduleOutcome, Reservation, ReserveReport,
    ReserveRequest, Settled, ShardLayout, Slot, TopicHere, TopicsPage,
};
