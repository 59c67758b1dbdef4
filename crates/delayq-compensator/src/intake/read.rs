//! Reading: a record becomes a write. Pure.
//!
//! ```text
//! headers ─┬─ delayq-…, and all others ─────────┐
//!          ├─ ce_…  an event in binary mode ────┼─► what is asked, and the message's headers ─► a write
//! body ────┴─ an event as one JSON document ────┘
//! ```
//! Nothing is ignored: an unknown name, a repeated one, or a header that means nothing with the verb makes a record
//! unreadable, because a misspelled delay would deliver at once.

mod asked;
mod content;
mod event;
mod time;

use crate::intake::record::BrokerRecord;
use asked::Carried;
use content::Content;
use delayq::spool::SpoolRecord;
use delayq::{Topic, UnixMillis};
use delayq_service::headers::{EVENT_PREFIXES, own, rest_of};

/// The write that a record asks for; `topic` is for records that name none, `now` is this host's clock.
///
/// # Errors
/// The record is unreadable.
pub(crate) fn read(
    record: &BrokerRecord,
    topic: Option<&Topic>,
    now: UnixMillis,
) -> Result<SpoolRecord, String> {
    let Content { asked, carried } = content(record)?;
    asked.write(record, topic, now, carried)
}

fn content(record: &BrokerRecord) -> Result<Content, String> {
    if let Some(damage) = record.damage {
        return Err(damage.to_owned());
    }
    let kind = record.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case(event::CONTENT_TYPE));
    let mut content = match kind.map(|(_, kind)| event::form_of(kind)).transpose()?.flatten() {
        Some(event::Structured) => event::structured(&record.body)?,
        None => {
            let carried = Carried { payload: record.body.clone(), ..Carried::default() };
            Content { carried, ..Content::default() }
        }
    };
    let structured = content.asked.is_event;
    let is_event = structured
        || record.headers.iter().any(|(name, _)| attribute(name).is_some_and(|name| name == event::VERSION));
    for (name, value) in &record.headers {
        if structured && name.eq_ignore_ascii_case(event::CONTENT_TYPE) {
            continue;
        }
        let value = std::str::from_utf8(value)
            .map_err(|_| format!("the value of the header {name:?} is not UTF-8"))?
            .to_owned();
        match (own(name), attribute(name)) {
            (Some(asks), _) => content.asked.set(asks, value)?,
            (None, Some(attribute)) if is_event && !structured => {
                content.asked.is_event = true;
                event::attribute(&mut content, &attribute, value)?;
            }
            (None, Some(attribute)) if event::asks(&attribute).is_some() => {
                let of = if structured {
                    "of an event in structured mode"
                } else {
                    "not part of an event: specversion is missing"
                };
                return Err(format!("the header {name:?} is {of}"));
            }
            _ => content.carried.headers.push((name.clone(), value)),
        }
    }
    Ok(content)
}

/// The attribute of an event that a header holds. The case of header names may change on the way.
fn attribute(name: &str) -> Option<String> {
    EVENT_PREFIXES.iter().find_map(|prefix| rest_of(name, prefix)).map(str::to_ascii_lowercase)
}

#[cfg(test)]
mod tests;
