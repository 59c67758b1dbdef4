//! The bindings of the scripts: for each script, a function that makes the call and a function that reads the answer.
//! Pure.
//!
//! Every `read…` function returns a [`ReplyError`](crate::reply::ReplyError) for a reply that the script never gives:
//! incompatible versions, or a bug.

pub mod audit;
pub mod cancel;
pub mod claim;
pub mod count;
pub mod cursor;
pub mod deployment;
pub mod dictionary;
pub mod finish;
pub mod forget;
pub mod group;
pub mod histogram;
pub mod history;
pub mod hold;
pub mod list;
pub mod meter;
pub mod operate;
pub mod overview;
pub mod pause;
pub mod probe;
pub mod promote;
pub mod pump;
pub mod purge;
pub mod put;
pub mod recount;
pub mod repair;
pub mod replay;
pub mod reschedule;
pub mod reserve;
pub mod settings;
pub mod settle;
pub mod settled;
pub mod survey;
pub mod swap;
pub mod words;
