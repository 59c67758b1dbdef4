//! The commands and what they take, as clap reads them; every refusal of it ends with the exit code of usage.

use clap::{Parser, Subcommand};

use crate::commands::{
    audit, bench, cancel, completions, config, count, dead, doctor, get, histogram, init, list, log, man,
    purge, put, repair, replay, reschedule, shards, spool, tail, timers, topic, topics, up,
};
use crate::deployment::Global;

/// Delivers messages at their time: puts, cancels, looks, and runs.
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
#[expect(missing_docs, reason = "each is said once, where it is: --help takes it from there")]
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
    Purge(purge::Purge),
    Tail(tail::Tail),
    Init(init::Init),
    Up(up::Up),
    Replay(replay::Replay),
    Doctor(doctor::Doctor),
    Audit(audit::Audit),
    Repair(repair::Repair),
    Timers(timers::Timers),
    Shards(shards::Shards),
    Bench(bench::Bench),
    Spool(spool::Spool),
    Config(config::Config),
    Completions(completions::Completions),
    Man(man::Man),
}
