//! Prints stored messages: a page as a table, or a message as a JSON object.

use crate::deployment::Context;
use crate::failure::of_core;
use crate::output::{complain, time_from};
use crate::printable::printable;
use clap::Args;
use delayq::admin::{ListCursor, Listed, ListedPage, Listing};
use delayq::protocol::Envelope;
use delayq::{Admin, Error, State, UnixMillis};
use delayq_service::Fault;
use serde_json::{Value, json};

pub use delayq_service::json::message as json_of;

/// Minimum number of messages read at a time in search of a reason.
const SEARCHED: usize = 500;

/// Which page of a listing.
#[derive(Clone, Debug, Args)]
pub struct ListingPage {
    /// At most this many
    #[arg(long, short = 'n', value_name = "COUNT", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    limit: u32,
    /// Continue after this cursor, which the previous page printed
    #[arg(long, value_name = "CURSOR")]
    after: Option<ListCursor>,
    /// A text in the reason of every message shown.
    #[arg(skip)]
    reason: Option<String>,
}

/// A column of a listing: the name, and the cell of a readable message.
pub type Column = (&'static str, fn(&Envelope, UnixMillis) -> String);

/// The group of a message.
pub const GROUP: Column =
    ("group", |envelope, _| envelope.group.as_ref().map(ToString::to_string).unwrap_or_default());
/// The due time.
pub const DUE: Column = ("due", |envelope, now| time_from(envelope.due, now));
/// The end of the lease.
pub const LEASE_ENDS: Column = ("lease ends", |envelope, now| time_from(envelope.at, now));
/// The time of death.
pub const DIED: Column = ("died", |envelope, now| time_from(envelope.at, now));
/// The state.
pub const STATE: Column = ("state", |envelope, _| state(envelope));
/// The attempts so far.
pub const ATTEMPT: Column = ("?>attempt", |envelope, _| envelope.attempt.to_string());
/// The length of the stored payload.
pub const BYTES: Column = ("?>bytes", |envelope, _| envelope.payload.len().to_string());
/// The reason of a dead letter.
pub const REASON: Column = ("reason", |envelope, _| envelope.reason.clone().unwrap_or_default());

// === impl ListingPage ===

impl ListingPage {
    /// Reads and prints the page. As text, standard error names the beginning of the next page. Returns the number of
    /// messages.
    ///
    /// # Errors
    /// Redis cannot be used.
    pub async fn print(
        &self,
        context: &Context,
        listing: Listing<'_>,
        columns: &[Column],
    ) -> Result<usize, Fault> {
        let admin = context.admin();
        let page = self.read(&admin, listing).await.map_err(of_core)?;
        let now = context.now().await?;
        let messages: Vec<Value> = page.messages.iter().map(|listed| json_of(listed, false)).collect();
        let next = page.next.as_ref().map(ToString::to_string);
        context
            .output
            .print(&json!({ "messages": messages, "next": next }), || table(context, &page, columns, now))?;
        if let (Some(next), false) = (next, context.output.json) {
            complain(&format!("more than these {}; next page: --after {next}", page.messages.len()));
        }
        Ok(page.messages.len())
    }

    /// Keeps only messages with this text in the reason.
    pub fn with_reason(self, reason: Option<String>) -> Self {
        Self { reason, ..self }
    }

    /// Reads on until the page is full of matching messages.
    async fn read(&self, admin: &Admin, listing: Listing<'_>) -> Result<ListedPage, Error> {
        let (limit, mut after) = (self.limit as usize, self.after.clone());
        if self.reason.is_none() {
            return admin.page(listing, after.as_ref(), limit).await;
        }
        let mut found = Vec::new();
        loop {
            let mut page = admin.page(listing, after.as_ref(), limit.max(SEARCHED)).await?;
            let mut matching = page.messages.iter().enumerate().filter(|(_, listed)| self.shows(listed));
            if let Some((last, _)) = matching.nth(limit - found.len() - 1) {
                // Reads again, for the cursor behind the last message that has room.
                page = admin.page(listing, after.as_ref(), last + 1).await?;
            }
            found.extend(page.messages.into_iter().filter(|listed| self.shows(listed)));
            if page.next.is_none() || found.len() >= limit {
                found.truncate(limit);
                return Ok(ListedPage { messages: found, next: page.next });
            }
            after = page.next;
        }
    }

    fn shows(&self, listed: &Listed) -> bool {
        let reason = listed.envelope.as_ref().ok().and_then(|envelope| envelope.reason.as_deref());
        self.reason.as_deref().is_none_or(|text| reason.is_some_and(|reason| reason.contains(text)))
    }
}

fn table(context: &Context, page: &ListedPage, columns: &[Column], now: UnixMillis) -> String {
    if page.messages.is_empty() {
        return "none".to_owned();
    }
    let names: Vec<&str> =
        ["id", "?topic"].into_iter().chain(columns.iter().map(|(name, _)| *name)).collect();
    let mut rows = context.output.rows(&names);
    for listed in &page.messages {
        let mut cells = vec![listed.id.to_string(), listed.topic.to_string()];
        match &listed.envelope {
            Ok(envelope) => cells.extend(columns.iter().map(|(_, cell)| cell(envelope, now))),
            Err(error) => cells.push(format!("cannot be read: {error}")),
        }
        rows.row(cells);
    }
    rows.text()
}

/// The state, the reason if a ready message may not be reserved yet, and what waits behind a leased message.
pub fn state(envelope: &Envelope) -> String {
    let held = match envelope {
        Envelope { paused: true, .. } => ", held: its group is paused",
        Envelope { blocked: true, .. } => ", held: a failed message blocks its group",
        Envelope { held: true, .. } => ", held by its group",
        Envelope { blocks: true, .. } => ", blocks its group",
        Envelope { has_successor: true, .. } => ", a put waits behind it",
        _ => "",
    };
    format!("{}{held}", envelope.state)
}

/// The events of a message as sentences, the newest last.
pub fn story(listed: &Listed, now: UnixMillis) -> Vec<String> {
    let envelope = match &listed.envelope {
        Ok(envelope) => envelope,
        Err(error) => return vec![format!("unreadable: {error}")],
    };
    let since = time_from(envelope.at, now);
    let mut story = Vec::new();
    if envelope.delivery > 0 {
        let times =
            if envelope.delivery == 1 { "once".to_owned() } else { format!("{} times", envelope.delivery) };
        story.push(format!("delivered {times}, attempt {}", envelope.attempt));
    }
    let due = time_from(envelope.due, now);
    story.push(match envelope.state {
        State::Delayed => format!("due {due}"),
        State::Ready if envelope.paused => {
            format!("held since {since}, because its group is paused; was due {due}")
        }
        State::Ready if envelope.blocked => {
            format!("held since {since}, because a failed message blocks its group; was due {due}")
        }
        State::Ready if envelope.held => format!("held by its group since {since}; was due {due}"),
        State::Ready => format!("ready since {since}; was due {due}"),
        State::Leased if envelope.doomed => {
            format!("leased until {since}; cancelled meanwhile, so no retry")
        }
        State::Leased => format!("leased until {since}; was due {due}"),
        State::Dead => format!("dead since {since}"),
        State::Delivered => format!("delivered {since}; was due {due}"),
        State::Cancelled => format!("cancelled {since}; was due {due}"),
        State::Expired => format!("expired {since}; was due {due}"),
        State::Purged => format!("purged by an operator {since}"),
    });
    if envelope.has_successor {
        story.push("a throttled put waits behind it, and takes its place when the lease ends".to_owned());
    }
    if envelope.blocks {
        story.push("failed: the others of its group wait until it has finished".to_owned());
    }
    story.extend(envelope.reason.as_ref().map(|reason| format!("because: {}", printable(reason))));
    story
}
