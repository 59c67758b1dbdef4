//! The only module that knows the etcd client: every request has a deadline, every error is an `EtcdError`.

mod keyspace;
mod lease;
mod link;
mod status;
mod watching;

pub(crate) use keyspace::{Entry, Fence, Range};
pub(crate) use lease::{Grant, KeepAlive};
pub(crate) use link::{EtcdError, EtcdLink};
pub(crate) use status::Status;
pub(crate) use watching::{Change, Watch, WatchRange};
