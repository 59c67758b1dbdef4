//! `delayq work`: a worker on the command line.

use crate::commands::work::handler::{Handler, HandlerOutcome};
use crate::deployment::{Context, Global};
use crate::failure::{BUG, of_core, usage};
use crate::naming::named;
use crate::output::complain;
use clap::Args;
use delayq::{Consumer, ConsumerOptions, Delivery, Settled, Topic};
use delayq_service::config::HumanDuration;
use delayq_service::when::When;
use delayq_service::{Fault, Signals};
use std::ffi::OsString;
use tokio::task::JoinSet;

mod command;
mod handler;
mod waiting;

/// The exit code after a second signal, as a shell reports a command that SIGINT ended.
const INTERRUPTED: i32 = 130;

/// Process messages as they become ready: run a command for each, or print it
///
/// Print each payload and ack it:            delayq work orders
/// Run a command with the payload as stdin:  delayq work orders -- ./cancel-unpaid.sh
///
/// Exit code 0 acks the message. Any other code releases it: it is delivered again after its topic's back-off, and
/// becomes a dead letter after its last attempt, whose reason holds the last 4 KiB of its standard error. The command has
/// DELAYQ_TOPIC, DELAYQ_ID, DELAYQ_GROUP, DELAYQ_DUE and DELAYQ_ATTEMPT in its environment. After Ctrl-C it takes no further
/// message and waits for those in progress; a second Ctrl-C ends them.
///
/// With --pump, this command and one Redis deliver on time, without a timer. Several such commands share the shards, and
/// take over from each other.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct Work {
    /// The topics, in order of priority
    #[arg(required = true, value_name = "TOPIC")]
    topics: Vec<Topic>,
    /// The command and its arguments; without one, payloads are printed
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
    /// How many messages to process at a time
    #[arg(long, short = 'c', value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1000))]
    concurrency: u16,
    /// End after this many messages; without it, run until Ctrl-C
    #[arg(long, short = 'n', value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// How long a lease lasts; it is renewed while the command runs. Default: the topic's
    #[arg(long, value_name = "DURATION")]
    lease: Option<HumanDuration>,
    /// Also process delayed messages due up to this time, the earliest due first; no more become ready than are processed
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    promote_until: Option<When>,
    /// Also pump due messages: no timer is needed. While timers pump, the command only watches
    #[arg(long)]
    pump: bool,
}

// === impl Work ===

impl Work {
    /// Works until stopped, or until the requested number of messages is reached.
    ///
    /// # Errors
    /// Redis cannot be used at the start, or the command cannot be started.
    pub async fn run(self, global: &Global, context: &Context) -> Result<(), Fault> {
        let mut signals = Signals::catch()?;
        let now = context.now().await?;
        let promote_until = self.promote_until.map(|when| when.at(now)).transpose().map_err(usage)?;
        waiting::explain(global, context, &self.topics, self.pump).await;
        let mut options = ConsumerOptions::new(self.topics);
        options.concurrency = self.concurrency.into();
        options.pump = self.pump;
        options.lease = self.lease.map(|lease| *lease);
        options.promote_until = promote_until;
        let handler = Handler::new(self.command, context.output);
        let mut consumer = Consumer::start(context.client().clone(), options).map_err(of_core)?;
        let (mut working, mut left) = (JoinSet::new(), self.count.unwrap_or(u64::MAX));
        let mut begun = None;
        let ended = loop {
            tokio::select! {
                biased;
                (_, at) = signals.first() => {
                    begun = Some(at);
                    break Ok(());
                }
                Some(worked) = working.join_next() => match settled(worked) {
                    Err(fault) => break Err(fault),
                    Ok(()) if left == 0 && working.is_empty() => break Ok(()),
                    Ok(()) => {}
                },
                Some(delivery) = consumer.next(), if left > 0 => {
                    left -= 1;
                    working.spawn(work(handler.clone(), delivery));
                }
            }
        };
        let hard_stop = async {
            let begun = match begun {
                Some(begun) => begun,
                None => signals.first().await.1,
            };
            signals.second(begun).await;
        };
        let drained = tokio::select! {
            drained = drain(consumer, &mut working) => drained,
            () = hard_stop => {
                // Ending the tasks ends the commands.
                working.shutdown().await;
                std::process::exit(INTERRUPTED);
            }
        };
        ended.and(drained)
    }
}

async fn work(handler: Handler, delivery: Delivery) -> Result<(), Fault> {
    let name = format!("{} {}", delivery.topic, named(&delivery.id, delivery.group()));
    let settled = match handler.handle(&delivery).await {
        HandlerOutcome::Done => delivery.ack().await,
        HandlerOutcome::Failed { why, stderr } => {
            let attempt = delivery.envelope.attempt;
            let reason = if stderr.is_empty() { why.clone() } else { format!("{why}\n{stderr}") };
            let released = delivery.release(None, &reason).await;
            let fate = match released {
                Ok(Settled::Buried) => "was the last attempt: the message is a dead letter",
                _ => "is released",
            };
            complain(&format!("{name}: {why}; attempt {attempt} {fate}"));
            released
        }
        HandlerOutcome::Lost => {
            complain(&format!("{name}: cancelled, or its lease was lost; the command was ended"));
            delivery.release(None, "the lease was lost").await
        }
        HandlerOutcome::Impossible(fault) => {
            drop(delivery.release(Some(std::time::Duration::ZERO), &fault.to_string()).await);
            return Err(fault);
        }
    };
    match settled {
        Ok(Settled::LeaseLost) => {
            complain(&format!("{name}: lease lost; the message will be delivered again"));
        }
        Ok(Settled::Failed(why)) => complain(&format!("{name}: not settled: {why}")),
        Ok(_) => {}
        Err(error) => complain(&format!("{name}: not settled: {}", of_core(error))),
    }
    Ok(())
}

fn settled(worked: Result<Result<(), Fault>, tokio::task::JoinError>) -> Result<(), Fault> {
    worked.unwrap_or_else(|error| Err(Fault::new(&BUG, error.to_string())))
}

/// Gives back messages that were not begun, and waits for messages that were.
async fn drain(consumer: Consumer, working: &mut JoinSet<Result<(), Fault>>) -> Result<(), Fault> {
    let finished = async {
        let mut ended = Ok(());
        while let Some(worked) = working.join_next().await {
            ended = ended.and(settled(worked));
        }
        ended
    };
    let (ended, ()) = tokio::join!(finished, consumer.stop());
    ended
}
