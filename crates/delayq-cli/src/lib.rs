//! The command line of delayq.

pub mod backup_line;
pub mod commands;
pub mod completion;
pub mod confirm;
pub mod deployment;
pub mod failure;
pub mod fleet;
pub mod help;
pub mod listing;
pub mod look;
pub mod naming;
pub mod output;
pub mod printable;
pub mod program;
pub mod sources;
pub mod table;
pub mod up;
pub mod whole;
