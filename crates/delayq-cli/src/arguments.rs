//! The commands and what they take, as clap reads them; every refusal of it ends with the exit code of usage.

use clap::{Parser, Subcommand};

use crate::commands::{
    audit, bench, cancel, completions, config, count, dead, doctor, get, histogram, init, list, log, man,
    purge, put, replay, reschedule, shards, spool, tail, timers, topic, topics, up,
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
pub enum Command {
    /// Put a message, or many from a file or standard input
    Put(put::Put),
    /// Keep messages from being delivered
    Cancel(cancel::Cancel),
    /// Change the due time of a message, or of a whole group
    Reschedule(reschedule::Reschedule),
    /// Look at one message
    Get(get::Get),
    /// List messages of a topic or group
    List(list::List),
    /// The numbers of one topic, or of all
    Count(count::Count),
    /// How many pending messages become due when
    Histogram(histogram::Histogram),
    /// What happened to a message, while it is remembered
    Log(log::Log),
    /// The topics with their numbers
    Topics(topics::Topics),
    /// Set a topic's policy, pause it, bound its rate
    Topic(topic::Topic),
    /// List, replay and purge dead letters
    Dead(dead::Dead),
    /// Throw pending messages away
    Purge(purge::Purge),
    /// Follow deliveries, without taking any away
    Tail(tail::Tail),
    /// Create the deployment in Redis, or check that it is there
    Init(init::Init),
    /// Run everything on this machine, with a Redis and an etcd of its own, until Ctrl-C
    Up(up::Up),
    /// Play an event log back, faster than it happened, and check what is delivered
    Replay(replay::Replay),
    /// Check that everything can be reached and is set as it must be
    Doctor(doctor::Doctor),
    /// Check that the books balance
    Audit(audit::Audit),
    /// The timers, and who owns which shards
    Timers(timers::Timers),
    /// The shards: what each holds, owner, epoch, next due time; and how to get more
    Shards(shards::Shards),
    /// Measure this machine: every figure beside its limit
    Bench(bench::Bench),
    /// The spool of this host: what waits for Redis, what was rejected
    Spool(spool::Spool),
    /// Check the configuration, or show what is in force
    Config(config::Config),
    /// Print the completions of a shell
    Completions(completions::Completions),
    /// Write the manual pages
    Man(man::Man),
}
