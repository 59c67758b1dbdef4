//! The program: reads the arguments, runs the command, prints the error.

use crate::commands::Cli;
use crate::deployment::Global;
use crate::failure::{NO_DEPLOYMENT, usage};
use crate::help::by_task;
use crate::printable::printable_lines;
use crate::{completion, output};
use clap::{CommandFactory as _, FromArgMatches as _};
use delayq_service::{Exit, Fault};
use serde_json::{Value, json};
use std::ffi::OsString;
use std::process::ExitCode;

/// The whole `main`.
pub fn main() -> ExitCode {
    delayq_service::install_tls();
    completion::answer();
    let cli = match parse() {
        Ok(cli) => cli,
        Err(error) => return refuse(&error),
    };
    let json = cli.global.json();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            let fault = Fault::new(&delayq_service::codes::SYSTEM, "cannot start the runtime").because(error);
            return complain(&fault, json);
        }
    };
    let exit = runtime.block_on(run(cli)).unwrap_or_else(|fault| complain(&fault, json));
    // Does not wait for running tasks: a read of standard input would hold the process up.
    runtime.shutdown_background();
    exit
}

fn parse() -> Result<Cli, clap::Error> {
    let mut command = by_task(Cli::command());
    let mut matches = command.try_get_matches_from_mut(std::env::args_os())?;
    Cli::from_arg_matches_mut(&mut matches).map_err(|error| error.format(&mut command))
}

/// Help, version, or the fault of the arguments.
fn refuse(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() {
        // A closed pipe is not an error of this program.
        drop(error.print());
        return Exit::Done.into();
    }
    let text = error.to_string();
    if asks_for_json(std::env::args_os().skip(1)) {
        let message = text.trim_end().trim_start_matches("error: ");
        return complain(&usage(message), true);
    }
    match printable_lines(&text) {
        std::borrow::Cow::Borrowed(_) => drop(error.print()),
        std::borrow::Cow::Owned(text) => output::complain(text.trim_end()),
    }
    Exit::Usage.into()
}

/// Returns whether arguments that could not be parsed ask for JSON.
fn asks_for_json(arguments: impl Iterator<Item = OsString>) -> bool {
    let arguments: Vec<String> = arguments.filter_map(|argument| argument.into_string().ok()).collect();
    let own = arguments.split(|argument| argument == "--").next().unwrap_or_default();
    own.iter().any(|argument| ["--json", "-ojson", "-o=json", "--output=json"].contains(&argument.as_str()))
        || own.windows(2).any(|pair| ["-o", "--output"].contains(&pair[0].as_str()) && pair[1] == "json")
}

fn complain(fault: &Fault, json: bool) -> ExitCode {
    match json {
        true => output::complain(&json_of(fault).to_string()),
        false => output::complain(format!("delayq: {}", fault.explained()).trim_end()),
    }
    fault.exit().into()
}

fn json_of(fault: &Fault) -> Value {
    let (code, message) = (fault.code(), fault.message());
    json!({ "error": {
        "code": code.id, "title": code.title, "message": message, "cause": code.cause, "tries": code.tries,
        "exit": code.exit.code(),
    }})
}

async fn run(cli: Cli) -> Result<ExitCode, Fault> {
    let Cli { command, global } = cli;
    match command.run(&global).await {
        Err(fault) if fault.code() == &NO_DEPLOYMENT => Err(with_namespaces(fault, &global).await),
        done => done,
    }
}

/// Adds the existing deployments to the fault for a missing deployment.
async fn with_namespaces(fault: Fault, global: &Global) -> Fault {
    let Ok(context) = global.context() else { return fault };
    match context.deployment.others().await {
        None => fault,
        Some(others) => Fault::new(&NO_DEPLOYMENT, format!("{}; {others}", fault.message())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_asked_for_in_every_way_that_clap_accepts() {
        let asks = |line: &str| asks_for_json(line.split(' ').map(OsString::from));
        for line in ["topics --json", "topics -o json", "-ojson topics", "topics --output=json"] {
            assert!(asks(line), "{line}");
        }
        for line in ["topics", "topics -o text", "work orders -- run --json"] {
            assert!(!asks(line), "{line}");
        }
    }
}
