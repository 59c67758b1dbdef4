//! The program itself: read the arguments, run the command, print what went wrong.

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser as _};
use delayq_service::{Exit, Fault};

use crate::arguments::{Cli, Command};
use crate::output;
use crate::printable::printable_lines;

/// The whole `main`.
pub fn main() -> ExitCode {
    delayq_service::install_tls();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let text = error.to_string();
            match printable_lines(&text) {
                // Help and version are no errors; a pipe that is closed already is none of ours.
                std::borrow::Cow::Borrowed(_) => drop(error.print()),
                std::borrow::Cow::Owned(text) => output::complain(text.trim_end()),
            }
            return if error.use_stderr() { Exit::Usage } else { Exit::Done }.into();
        }
    };
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            return complain(
                &Fault::new(&delayq_service::codes::SYSTEM, "cannot start the runtime").because(error),
            );
        }
    };
    let exit = runtime.block_on(run(cli)).unwrap_or_else(|fault| complain(&fault));
    // What still runs belongs to nobody any more: a read of standard input would hold the process up.
    runtime.shutdown_background();
    exit
}

fn complain(fault: &Fault) -> ExitCode {
    output::complain(format!("delayq: {}", fault.explained()).trim_end());
    fault.exit().into()
}

async fn run(cli: Cli) -> Result<ExitCode, Fault> {
    let global = cli.global;
    match cli.command {
        Command::Put(put) => put.run(&global.context()?).await?,
        Command::Cancel(cancel) => cancel.run(&global.context()?).await?,
        Command::Reschedule(reschedule) => reschedule.run(&global.context()?).await?,
        Command::Get(get) => get.run(&global.context()?).await?,
        Command::List(list) => list.run(&global.context()?).await?,
        Command::Count(count) => count.run(&global.context()?).await?,
        Command::Histogram(histogram) => histogram.run(&global.context()?).await?,
        Command::Log(log) => log.run(&global.context()?).await?,
        Command::Topics(topics) => topics.run(&global.context()?).await?,
        Command::Topic(topic) => topic.run(&global.context()?).await?,
        Command::Dead(dead) => dead.run(&global.context()?).await?,
        Command::Purge(purge) => purge.run(&global.context()?).await?,
        Command::Tail(tail) => tail.run().await?,
        Command::Init(init) => init.run(&global.context()?).await?,
        Command::Up(up) => return up.run(&global).await.map(ExitCode::from),
        Command::Replay(replay) => return replay.run(&global).await.map(ExitCode::from),
        Command::Doctor(doctor) => doctor.run(&global).await?,
        Command::Audit(audit) => audit.run(&global.context()?).await?,
        Command::Repair(repair) => repair.run(&global.context()?).await?,
        Command::Timers(timers) => timers.run(&global.context()?).await?,
        Command::Shards(shards) => shards.run(&global.context()?).await?,
        Command::Bench(bench) => bench.run(&global).await?,
        Command::Spool(spool) => spool.run(&global.context()?).await?,
        Command::Config(config) => config.run(&global).await?,
        Command::Completions(completions) => completions.run(Cli::command())?,
        Command::Man(man) => man.run(Cli::command())?,
    }
    Ok(ExitCode::SUCCESS)
}
