//! The commands, one module each: read the arguments, call core, print.

pub mod audit;
pub mod cancel;
pub mod completions;
pub mod config;
pub mod count;
pub mod dead;
pub mod doctor;
pub mod get;
pub mod histogram;
pub mod init;
pub mod list;
pub mod log;
pub mod man;
pub mod purge;
pub mod put;
pub mod repair;
pub mod reschedule;
pub mod shards;
pub mod spool;
pub mod tail;
pub mod timers;
pub mod topic;
pub mod topics;
pub mod up;
pub mod work;
