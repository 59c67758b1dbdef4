//! The command line of delayq.

pub mod arguments;
pub mod commands;
pub mod deployment;
pub mod event_log;
pub mod failure;
pub mod listing;
pub mod output;
pub mod printable;
pub mod program;
pub mod put_line;
pub mod replay;
pub mod up;
pub mod when;
pub mod whole;
