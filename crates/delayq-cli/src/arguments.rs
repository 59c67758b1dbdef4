//! Command-line arguments, parsed by clap. Arguments that clap refuses end the program with the usage exit code.

use crate::commands::{
    acl, audit, backup, bundle, cancel, check, completions, config, count, dead, doctor, get, histogram,
    init, list, log, man, outbox, promote, purge, put, repair, reschedule, restore, shards, spool, tail,
    timers, top, topic, topics, up, work,
};
use crate::deployment::Global;
use clap::{Parser, Subcommand};

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

/// The commands.
#[derive(Debug, Subcommand)]
#[expect(missing_docs, reason = "each command documents itself: --help takes it from there")]
pub enum Command {
    Put(put::Put),
    Cancel(cancel::Cancel),
    Reschedule(reschedule::Reschedule),
    Get(get::Get),
    List(list::List),
    Count(count::Count),
    Histogram(histogram::Histogram),
    Log(log::Log),
    Topics(topics::Topics),
    Topic(topic::Topic),
    Dead(dead::Dead),
    Work(work::Work),
    Promote(promote::Promote),
    Purge(purge::Purge),
    Tail(tail::Tail),
    Init(init::Init),
    Up(up::Up),
    Doctor(doctor::Doctor),
    Check(check::Check),
    Audit(audit::Audit),
    Repair(repair::Repair),
    Backup(backup::Backup),
    Restore(restore::Restore),
    Bundle(bundle::Bundle),
    Timers(timers::Timers),
    Top(top::Top),
    Acl(acl::Acl),
    Shards(shards::Shards),
    Spool(spool::Spool),
    Outbox(outbox::Outbox),
    Config(config::Config),
    Completions(completions::Completions),
    Man(man::Man),
}
