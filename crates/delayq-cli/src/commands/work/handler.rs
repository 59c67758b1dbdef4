//! Handles the messages of `delayq work`: prints a message, or runs a command.

use crate::commands::work::command::RunningCommand;
use crate::failure::{PROGRAM_MISSING, file};
use crate::output::{Output, time};
use base64::Engine as _;
use delayq::Delivery;
use delayq_service::Fault;
use serde_json::{Value, json};
use std::ffi::OsString;
use std::io::ErrorKind;
use std::process::ExitStatus;
use std::sync::Arc;

#[derive(Clone, Debug)]
pub(super) struct Handler {
    command: Arc<[OsString]>,
    output: Output,
}

pub(super) enum HandlerOutcome {
    /// Ack.
    Done,
    /// Release.
    Failed {
        /// The reason.
        why: String,
        /// The tail of the command's standard error.
        stderr: String,
    },
    /// The message was cancelled meanwhile, or the lease is lost.
    Lost,
    /// No message can be handled, because of this fault.
    Impossible(Fault),
}

// === impl Handler ===

impl Handler {
    /// Without a command, the handler prints payloads.
    pub(super) fn new(command: Vec<OsString>, output: Output) -> Self {
        Self { command: command.into(), output }
    }

    /// Handles a message. Dropping the future ends the command and the process group.
    pub(super) async fn handle(&self, delivery: &Delivery) -> HandlerOutcome {
        let Some((program, arguments)) = self.command.split_first() else { return self.print(delivery) };
        let mut running = match RunningCommand::start(program, arguments, environment(delivery)) {
            Ok(running) => running,
            Err(error) => return HandlerOutcome::Impossible(not_started(program, error)),
        };
        tokio::select! {
            ended = running.end(&delivery.envelope.payload) => judged(ended),
            () = delivery.lost() => HandlerOutcome::Lost,
        }
    }

    fn print(&self, delivery: &Delivery) -> HandlerOutcome {
        let text = || String::from_utf8_lossy(&delivery.envelope.payload).into_owned();
        match self.output.line(&json_of(delivery), text) {
            Ok(()) => HandlerOutcome::Done,
            Err(fault) => HandlerOutcome::Impossible(fault),
        }
    }
}

fn judged(ended: std::io::Result<(ExitStatus, String)>) -> HandlerOutcome {
    match ended {
        Ok((status, _)) if status.success() => HandlerOutcome::Done,
        Ok((status, stderr)) => HandlerOutcome::Failed { why: status.to_string(), stderr },
        Err(error) => HandlerOutcome::Failed { why: error.to_string(), stderr: String::new() },
    }
}

fn environment(delivery: &Delivery) -> [(&'static str, String); 5] {
    let envelope = &delivery.envelope;
    [
        ("DELAYQ_TOPIC", delivery.topic.to_string()),
        ("DELAYQ_ID", delivery.id.to_string()),
        ("DELAYQ_GROUP", envelope.group.as_ref().map(ToString::to_string).unwrap_or_default()),
        ("DELAYQ_DUE", time(envelope.due)),
        ("DELAYQ_ATTEMPT", envelope.attempt.to_string()),
    ]
}

fn not_started(program: &OsString, error: std::io::Error) -> Fault {
    let program = program.display();
    match error.kind() {
        ErrorKind::NotFound => Fault::new(&PROGRAM_MISSING, format!("command not found: {program}")),
        _ => file(program.to_string().as_ref(), "run", error),
    }
}

fn json_of(delivery: &Delivery) -> Value {
    let envelope = &delivery.envelope;
    let mut value = json!({
        "id": delivery.id, "topic": delivery.topic, "group": envelope.group.as_ref().map(ToString::to_string),
        "due_at": time(envelope.due), "due_ms": envelope.due.get(),
        "attempt": envelope.attempt, "delivery": envelope.delivery,
        "headers": envelope.headers.iter().map(|(name, value)| json!([name, value])).collect::<Vec<_>>(),
    });
    match std::str::from_utf8(&envelope.payload) {
        Ok(text) => value["payload"] = text.into(),
        Err(_) => {
            value["payload_base64"] =
                base64::engine::general_purpose::STANDARD.encode(&envelope.payload).into();
        }
    }
    value
}
