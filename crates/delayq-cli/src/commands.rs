//! The command line: the table of the commands, a module each, parsed by clap.
//!
//! Arguments that clap refuses end the program with the usage exit code.

pub mod acl;
pub mod audit;
pub mod backup;
pub mod bundle;
pub mod bury;
pub mod cancel;
pub mod check;
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
pub mod outbox;
pub mod promote;
pub mod purge;
pub mod put;
pub mod repair;
pub mod reschedule;
pub mod restore;
pub mod shards;
pub mod spool;
pub mod timers;
pub mod top;
pub mod topic;
pub mod topics;
pub mod up;
pub mod work;

use crate::deployment::Global;
use crate::look::look;
use clap::{CommandFactory as _, Parser, Subcommand};
use delayq_service::Fault;
use std::process::{ExitCode, Termination as _};

/// Schedule, cancel, inspect and operate delayed messages
#[derive(Debug, Parser)]
#[command(name = "delayq", version, max_term_width = 100, disable_help_subcommand = false)]
pub struct Cli {
    /// What to do
    #[command(subcommand)]
    pub command: Command,
    /// Which deployment
    #[command(flatten)]
    pub global: Global,
}

/// Expands the table into the arguments of every command, the groups of the help, and the calls.
macro_rules! commands {
    ($($task:literal { $($module:ident: $command:ident => |$arguments:ident, $global:pat_param| $call:expr;)+ })+) => {
        /// The commands.
        #[derive(Debug, Subcommand)]
        #[expect(missing_docs, reason = "each command documents itself: --help takes it from there")]
        pub enum Command {
            $($($command($module::$command),)+)+
        }

        /// The tasks, and the commands for each, in the order in which a newcomer needs the commands.
        pub const TASKS: &[(&str, &[&str])] = &[$(($task, &[$(stringify!($module)),+])),+];

        impl Command {
            /// Runs the command.
            ///
            /// # Errors
            /// Those of the command.
            pub async fn run(self, global: &Global) -> Result<ExitCode, Fault> {
                let exit = match self {
                    $($(Self::$command($arguments) => {
                        let $global = global;
                        $call?.report()
                    })+)+
                };
                Ok(exit)
            }
        }
    };
}

commands! {
    "Start" {
        up: Up => |up, global| up.run(global).await.map(ExitCode::from);
        init: Init => |init, global| init.run(&global.context()?).await;
    }
    "Messages" {
        put: Put => |put, global| put.run(&global.context()?).await;
        work: Work => |work, global| work.run(global, &global.context()?).await;
        get: Get => |get, global| get.run(&global.context()?).await;
        list: List => |list, global| look(&global.context()?, async |part| list.run(part).await).await;
        reschedule: Reschedule => |reschedule, global| reschedule.run(&global.context()?).await;
        promote: Promote => |promote, global| promote.run(&global.context()?).await;
        bury: Bury => |bury, global| bury.run(&global.context()?).await;
        cancel: Cancel => |cancel, global| cancel.run(&global.context()?).await;
        log: Log => |log, global| log.run(&global.context()?).await;
    }
    "Topics" {
        topics: Topics => |topics, global| topics.run(&global.context()?).await;
        topic: Topic => |topic, global| topic.run(&global.context()?).await;
        count: Count => |count, global| count.run(&global.context()?).await;
        histogram: Histogram => |histogram, global| look(&global.context()?, async |part| histogram.run(part).await).await;
        dead: Dead => |dead, global| dead.run(&global.context()?).await;
        purge: Purge => |purge, global| purge.run(&global.context()?).await;
    }
    "Operation" {
        doctor: Doctor => |doctor, global| doctor.run(global).await;
        check: Check => |check, global| check.run(global).await;
        top: Top => |top, global| top.run(&global.context()?).await;
        timers: Timers => |timers, global| timers.run(&global.context()?).await;
        shards: Shards => |shards, global| shards.run(&global.context()?).await;
        spool: Spool => |spool, global| spool.run(&global.context()?).await;
        outbox: Outbox => |outbox, global| outbox.run(&global.context()?).await;
        audit: Audit => |audit, global| look(&global.context()?, async |part| audit.run(part).await).await;
        repair: Repair => |repair, global| look(&global.context()?, async |part| repair.run(part).await).await;
        backup: Backup => |backup, global| backup.run(&global.context()?).await;
        restore: Restore => |restore, global| restore.run(&global.context()?).await;
        bundle: Bundle => |bundle, global| bundle.run(global).await;
        acl: Acl => |acl, global| acl.run(&global.context()?);
        config: Config => |config, global| config.run(global).await;
    }
    "Shell" {
        completions: Completions => |completions, _| completions.run();
        man: Man => |man, _| man.run(Cli::command());
    }
}

#[cfg(test)]
mod tests;
