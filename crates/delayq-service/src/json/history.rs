//! What happened to a message.

use super::add_time;
use delayq::admin::{Happening, History, HistoryEvent};
use serde_json::{Value, json};

/// The events of a message, oldest first.
#[must_use]
pub fn events(history: &History) -> Value {
    with_holders(history).map(|(event, holder)| of_event(event, holder)).collect()
}

/// Each event, and who held the message: it is the holder of the lease who settles it.
pub fn with_holders(history: &History) -> impl Iterator<Item = (&HistoryEvent, Option<&str>)> {
    let mut holder = None;
    history.events.iter().map(move |event| match &event.what {
        Happening::Leased { by, .. } => {
            holder = by.as_deref();
            (event, holder)
        }
        Happening::Delivered | Happening::Released { .. } | Happening::Failed { .. } => {
            (event, holder.take())
        }
        // Who asked for it is not known, and the lease goes on.
        Happening::CancelRequested => (event, None),
        _ => {
            holder = None;
            (event, None)
        }
    })
}

fn of_event(event: &HistoryEvent, holder: Option<&str>) -> Value {
    let mut value = json!({ "event": event.what.word() });
    add_time(&mut value, "event", Some(event.at));
    if let Some(by) = holder {
        value["by"] = by.into();
    }
    let next = match &event.what {
        Happening::Put(next) | Happening::LeaseEnded(next) | Happening::Replayed(next) => Some(next),
        Happening::Rescheduled { from, next } => {
            add_time(&mut value, "old_due", Some(*from));
            Some(next)
        }
        Happening::Released { next, reason } | Happening::Failed { next, reason } => {
            value["reason"] = reason.as_str().into();
            Some(next)
        }
        Happening::Buried { reason } => {
            value["reason"] = reason.as_str().into();
            None
        }
        Happening::Leased { attempt, until, .. } => {
            value["attempt"] = (*attempt).into();
            add_time(&mut value, "lease_ends", Some(*until));
            None
        }
        _ => None,
    };
    if let Some(next) = next {
        add_time(&mut value, "due", Some(next.due));
        value["state"] = if next.ready { "ready" } else { "delayed" }.into();
    }
    value
}
