//! Reading the bytes of Redis, peers and disks: the outcomes that all clients share, and hostile bytes.

#![allow(clippy::unwrap_used, reason = "all of it is tests, the functions that they share included")]

mod description;
mod hostile;
mod outcomes;
