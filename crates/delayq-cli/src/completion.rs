//! Completions for a command line being typed: the shell runs this program and reads the candidates.

use crate::commands::Cli;
use crate::commands::completions::VARIABLE;
use crate::deployment::Global;
use clap::{Command, CommandFactory as _, FromArgMatches as _};
use clap_complete::{ArgValueCandidates, CompleteEnv, CompletionCandidate};
use delayq::{Admin, Topic};
use delayq_service::deployment::client;
use std::ffi::OsString;
use std::time::Duration;

/// Maximum time that the shell waits for the names of topics.
const DEADLINE: Duration = Duration::from_millis(500);

/// Answers a shell that asks for completions, and ends the process; otherwise does nothing.
pub fn answer() {
    CompleteEnv::with_factory(|| with_topics(Cli::command())).var(VARIABLE).complete();
}

/// The command line with topics offered wherever a topic is named.
fn with_topics(command: Command) -> Command {
    let names_topics = |id: &str| ["topic", "topics"].contains(&id);
    let command = command.mut_args(|arg| match names_topics(arg.get_id().as_str()) {
        true => arg.add(ArgValueCandidates::new(candidates)),
        false => arg,
    });
    command.mut_subcommands(with_topics)
}

/// Empty if the deployment cannot be asked.
fn candidates() -> Vec<CompletionCandidate> {
    // The arguments are the program, `--`, and the line.
    let line: Vec<OsString> = std::env::args_os().skip(2).collect();
    let topics = topics(line).unwrap_or_default();
    topics.into_iter().map(|topic| CompletionCandidate::new(topic.to_string())).collect()
}

fn topics(line: Vec<OsString>) -> Option<Vec<Topic>> {
    let matches = Cli::command().ignore_errors(true).try_get_matches_from(line).ok()?;
    let config = Global::from_arg_matches(&matches).ok()?.load().ok()?.config;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
    runtime.block_on(async {
        let admin = Admin::new(client(&config.deployment, &config.redis).ok()?);
        tokio::time::timeout(DEADLINE, admin.topics()).await.ok()?.ok()
    })
}
