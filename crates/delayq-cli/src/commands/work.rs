//! `delayq work`: a worker on the command line.

use crate::commands::work::handler::{Handler, Judgement};
use crate::deployment::Context;
use crate::failure::{BUG, file, of_core};
use crate::listing::named;
use crate::output::complain;
use crate::when::Span;
use clap::Args;
use delayq::{Consumer, ConsumerOptions, Delivery, Settled, Topic};
use delayq_service::Fault;
use std::ffi::OsString;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;

mod handler;

/// Process messages as they become ready: run a command for each, or print it
///
/// Print each payload and ack it:            delayq work orders
/// Run a command with the payload as stdin:  delayq work orders -- ./cancel-unpaid.sh
///
/// Exit code 0 acks the message. Any other code releases it: it is delivered again after its topic's back-off, and
/// becomes a dead letter after its last attempt. The command has DELAYQ_TOPIC, DELAYQ_ID, DELAYQ_GROUP, DELAYQ_DUE and
/// DELAYQ_ATTEMPT in its environment. After Ctrl-C it takes no further message and waits for those in progress.
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
    lease: Option<Span>,
}

// === impl Work ===

impl Work {
    /// Works until it is stopped, or has had its count of messages.
    ///
    /// # Errors
    /// Redis cannot be used at the start, or the command cannot be started.
    pub async fn run(self, context: &Context) -> Result<(), Fault> {
        let mut stop = stop()?;
        context.now().await?;
        self.name_missing_topics(context).await;
        let mut options = ConsumerOptions::new(self.topics);
        options.concurrency = self.concurrency.into();
        options.lease = self.lease.map(|lease| *lease);
        let handler = Handler::new(self.command, context.output);
        let mut consumer = Consumer::start(context.client.clone(), options);
        let (mut working, mut left) = (JoinSet::new(), self.count.unwrap_or(u64::MAX));
        let ended = loop {
            tokio::select! {
                biased;
                () = &mut stop => break Ok(()),
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
        let drained = drain(consumer, working).await;
        ended.and(drained)
    }

    async fn name_missing_topics(&self, context: &Context) {
        for topic in &self.topics {
            if let Err(missing) = context.known_topic(topic).await {
                complain(&format!("delayq: {missing}. Waiting for it."));
            }
        }
    }
}

/// Resolves at Ctrl-C or SIGTERM; a second one ends the process at once.
fn stop() -> Result<std::pin::Pin<Box<dyn Future<Output = ()> + Send>>, Fault> {
    let listen = |kind| signal(kind).map_err(|error| file("the signals".as_ref(), "listen to", error));
    let (mut interrupt, mut terminate) = (listen(SignalKind::interrupt())?, listen(SignalKind::terminate())?);
    let (asked, stopped) = tokio::sync::oneshot::channel();
    tokio::spawn(async move {
        let mut next = async || {
            tokio::select! { _ = interrupt.recv() => {}, _ = terminate.recv() => {} }
        };
        next().await;
        let _ = asked.send(());
        next().await;
        std::process::exit(130);
    });
    Ok(Box::pin(async move { drop(stopped.await) }))
}

/// Works on one message and settles it.
async fn work(handler: Handler, delivery: Delivery) -> Result<(), Fault> {
    let name = format!("{} {}", delivery.topic, named(&delivery.id, delivery.group()));
    let settled = match handler.handle(&delivery).await {
        Judgement::Done => delivery.ack().await,
        Judgement::Failed(why) => {
            let attempt = delivery.envelope.attempt;
            let released = delivery.release(None, &why).await;
            let fate = match released {
                Ok(Settled::Buried) => "was the last: the message is a dead letter",
                _ => "is released",
            };
            complain(&format!("{name}: {why}; attempt {attempt} {fate}"));
            released
        }
        Judgement::Lost => {
            complain(&format!("{name}: cancelled, or its lease was lost; the command was ended"));
            delivery.release(None, "the lease was lost").await
        }
        Judgement::Impossible(fault) => {
            drop(delivery.release(Some(std::time::Duration::ZERO), &fault.to_string()).await);
            return Err(fault);
        }
    };
    match settled {
        Ok(Settled::LeaseLost) => complain(&format!("{name}: its lease was lost; it is delivered again")),
        Ok(Settled::Failed(why)) => complain(&format!("{name}: not settled: {why}")),
        Ok(_) => {}
        Err(error) => complain(&format!("{name}: not settled: {}", of_core(error))),
    }
    Ok(())
}

fn settled(worked: Result<Result<(), Fault>, tokio::task::JoinError>) -> Result<(), Fault> {
    worked.unwrap_or_else(|error| Err(Fault::new(&BUG, error.to_string())))
}

/// Gives back what was not begun, and waits for what was.
async fn drain(consumer: Consumer, working: JoinSet<Result<(), Fault>>) -> Result<(), Fault> {
    let (worked, ()) = tokio::join!(working.join_all(), consumer.stop());
    worked.into_iter().collect()
}
