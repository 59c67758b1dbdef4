//! The protocol against a real Redis: every script, every promise.

#![allow(clippy::unwrap_used, reason = "all of it is tests, the functions that they share included")]

mod life;
