//! `delayq get`: a message with all known details.

use crate::deployment::Context;
use crate::failure::{of_core, usage};
use crate::listing::{json_of, state};
use crate::naming::named;
use crate::output::{payload, time_from};
use crate::printable::printable;
use clap::Args;
use delayq::{Group, MessageId, State, Target, Topic};
use delayq_service::Fault;
use std::borrow::Cow;

/// Show one message
#[derive(Debug, Args)]
pub struct Get {
    /// Its topic
    topic: Topic,
    /// Its id
    id: MessageId,
    /// Its group: an own id is another message in each group
    #[arg(long, short = 'g')]
    group: Option<Group>,
    /// Print only the stored payload, byte for byte; on a terminal, with control characters escaped
    #[arg(long, conflicts_with_all = ["json", "output"])]
    payload: bool,
}

// === impl Get ===

impl Get {
    /// Prints the message.
    ///
    /// # Errors
    /// Redis cannot be used, or the message is unknown.
    pub async fn run(self, context: &Context) -> Result<(), Fault> {
        let target = Target { id: self.id, group: self.group };
        let found = context.admin().topic(&self.topic).get(&target).await.map_err(of_core)?;
        let Some(listed) = found else { return Err(context.unknown_message(&self.topic, &target).await) };
        if self.payload {
            let envelope = listed.envelope.as_ref().map_err(usage)?;
            return payload(&envelope.payload);
        }
        let now = context.now().await?;
        context.output.print(&json_of(&listed, true), || {
            let mut rows = context.output.rows(&["field", "value"]);
            let envelope = match &listed.envelope {
                Ok(envelope) => envelope,
                Err(error) => {
                    let name = named(&listed.id, listed.group.as_ref());
                    return format!("{name} cannot be read: {error}");
                }
            };
            let mut row = |name: &str, value: String| rows.row([name.to_owned(), value]);
            row("id", listed.id.to_string());
            row("topic", listed.topic.to_string());
            row("shard", listed.shard.to_string());
            row("state", state(envelope));
            row("due", time_from(envelope.due, now));
            let since = if envelope.state == State::Leased { "lease ends" } else { "since" };
            row(since, time_from(envelope.at, now));
            row("attempt", format!("{}, delivery {}", envelope.attempt, envelope.delivery));
            if let Some(group) = &listed.group {
                row("group", group.to_string());
            }
            if let Some(expires) = envelope.expires {
                row("expires", time_from(expires, now));
            }
            if let Some(reason) = &envelope.reason {
                row("reason", reason.clone());
            }
            for (name, value) in &envelope.headers {
                row("header", format!("{name}={value}"));
            }
            if !envelope.state.is_over() {
                row("payload", shown(&envelope.payload));
            }
            rows.text()
        })
    }
}

/// The beginning of a text payload, or the size of a binary payload.
pub(crate) fn shown(payload: &[u8]) -> String {
    match std::str::from_utf8(payload) {
        Ok(text) if matches!(printable(text), Cow::Borrowed(_)) => {
            let start: String = text.chars().take(200).collect();
            let more =
                if start.len() < text.len() { format!("… ({} bytes)", text.len()) } else { String::new() };
            format!("{start}{more}")
        }
        _ => format!("{} bytes; see --payload", payload.len()),
    }
}
