//! The protocol of delayq, without a connection: ids, messages, the envelope, keys, the layout, and the scripts.
//!
//! Applications use the crate `delayq`, which adds the connection. This crate implements `docs/protocol.md`, which
//! specifies the protocol for every client.

pub mod again;
pub mod backoff;
pub mod call;
pub mod codec;
pub mod durability;
pub mod envelope;
pub mod fate;
pub mod id;
pub mod identity;
pub mod keys;
pub mod layout;
pub mod leased;
pub mod limits;
pub mod members;
pub mod message;
mod odd;
pub mod policy;
pub mod ranges;
pub mod reason;
pub mod record;
pub mod reply;
mod rising;
pub mod script;
mod series;
pub mod shard;
pub mod spool;
pub mod target;
pub mod time;
pub mod url;
pub mod verbs;
