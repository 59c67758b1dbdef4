//! The request of a record, by header names, and the resulting write.

use super::time::{due, moment};
use crate::intake::record::BrokerRecord;
use delayq::spool::{SpoolAction, SpoolRecord};
use delayq::{Due, Fate, Group, Message, MessageId, Reschedule, Shift, Target, Topic, UnixMillis};
use delayq_service::config::HumanDuration;
use delayq_service::events::ABOUT_A_DELIVERY;
use delayq_service::put_options::{OPTIONS, described};
use std::collections::BTreeMap;

/// What a record may ask for, in addition to the options of a put.
const NAMES: [&str; 8] = ["verb", "topic", "id", "group", "due", "delay", "expected", "by"];

/// The values as written. Each is asked for at most once.
#[derive(Debug, Default)]
pub(super) struct AskedWrite {
    /// The record is an event, with an id and a type of its own for a record that names no other id or topic.
    pub(super) is_event: bool,
    /// The event's source, id and type.
    pub(super) event_id: Option<String>,
    pub(super) event_source: Option<String>,
    pub(super) event_type: Option<String>,
    texts: BTreeMap<&'static str, String>,
}

/// The content of the message.
#[derive(Debug, Default)]
pub(super) struct Carried {
    pub(super) headers: Vec<(String, String)>,
    pub(super) payload: Vec<u8>,
}

// === impl AskedWrite ===

impl AskedWrite {
    /// Notes the value of `name`: the rest of a header after `delayq-`, or of an event's attribute after `delayq`.
    ///
    /// # Errors
    /// The name is unknown, or has a value already.
    pub(super) fn set(&mut self, name: &str, value: String) -> Result<(), String> {
        let plain: String = name.chars().filter(|&c| c != '-').map(|c| c.to_ascii_lowercase()).collect();
        let known = NAMES.into_iter().chain(OPTIONS).find(|known| known.replace('-', "") == plain);
        match known.map(|known| self.texts.insert(known, value)) {
            Some(None) => Ok(()),
            Some(Some(_)) => Err(format!("delayq-{name} occurs twice")),
            None if ABOUT_A_DELIVERY.contains(&plain.as_str()) => Ok(()),
            None => Err(format!("unknown header delayq-{name}")),
        }
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.texts.get(name).map(String::as_str)
    }

    /// Makes the write of a record.
    pub(super) fn write(
        self,
        record: &BrokerRecord,
        default: Option<&Topic>,
        now: UnixMillis,
        carried: Carried,
    ) -> Result<SpoolRecord, String> {
        let topic = match (self.get("topic"), default, self.event_type.as_deref()) {
            (Some(topic), ..) | (None, None, Some(topic)) => Topic::new(topic).map_err(text)?,
            (None, Some(topic), _) => topic.clone(),
            (None, None, None) => return Err("delayq-topic is missing".to_owned()),
        };
        let id =
            self.get("id").map(str::to_owned).or_else(|| self.id_of_event()).or_else(|| record.id.clone());
        let id: MessageId = id.ok_or("delayq-id is missing")?.parse().map_err(text)?;
        let group = self.get("group").map(Group::new).transpose().map_err(text)?;
        let target = Target { id, group };
        let action = match self.get("verb") {
            None | Some("put") if record.has_no_value => {
                return Err(
                    "the record has no value: a tombstone is not a put; to cancel, set delayq-verb: cancel"
                        .to_owned(),
                );
            }
            None | Some("put") => SpoolAction::Put(self.put(&topic, &target, record.at, carried)?.into()),
            Some("cancel") => {
                self.none_of(&["due", "delay", "expected", "by"], "cancel")?;
                self.none_of(&OPTIONS, "cancel")?;
                SpoolAction::Cancel
            }
            Some("reschedule") => {
                self.none_of(&OPTIONS, "reschedule")?;
                SpoolAction::Reschedule(self.change(record.at)?)
            }
            Some(verb) => {
                return Err(format!("delayq-verb is {verb:?}, expected put, cancel or reschedule"));
            }
        };
        // A replacing put may be a repeat, or may be the first try after another message: the put is sent again, because a
        // repeated message is better than a lost one.
        let replaces = matches!(&action, SpoolAction::Put(message) if message.replace);
        let fate = if record.is_repeat && !replaces { Fate::Unknown } else { Fate::NotApplied };
        Ok(SpoolRecord { topic, target, tried_at: record.at.unwrap_or(now), fate, action })
    }

    /// Only source and id together identify an event.
    fn id_of_event(&self) -> Option<String> {
        let id = self.event_id.as_ref()?;
        Some(self.event_source.as_ref().map_or_else(|| id.clone(), |source| format!("{source}#{id}")))
    }

    fn put(
        &self,
        topic: &Topic,
        target: &Target,
        published: Option<UnixMillis>,
        carried: Carried,
    ) -> Result<Message, String> {
        self.none_of(&["expected", "by"], "put")?;
        let mut message = Message::new(topic.clone(), carried.payload).with_id(target.id.clone());
        message.group.clone_from(&target.group);
        message.headers = carried.headers;
        if let Some(due) = self.due(published)? {
            message.due = due;
        }
        described(message, false, |name| self.get(name))
            .map_err(|odd| format!("delayq-{} is {:?}: {}", odd.name, self.texts[odd.name], odd.why))
    }

    fn change(&self, published: Option<UnixMillis>) -> Result<Reschedule, String> {
        let expected = self.get("expected").map(|text| moment("expected", text)).transpose()?;
        match (self.due(published)?, self.get("by"), expected) {
            (Some(due), None, None) => Ok(Reschedule::To(due)),
            (Some(due), None, Some(expected)) => Ok(Reschedule::ToIfDue(due, expected)),
            (None, Some(by), Some(expected)) => Ok(Reschedule::By(shift(by)?, expected)),
            (None, Some(_), None) => {
                Err("delayq-by needs delayq-expected, so that a repeat does not move the message twice"
                    .to_owned())
            }
            _ => Err("a reschedule needs one of delayq-due, delayq-delay and delayq-by".to_owned()),
        }
    }

    fn due(&self, published: Option<UnixMillis>) -> Result<Option<Due>, String> {
        match (self.get("due"), self.get("delay")) {
            (Some(_), Some(_)) => Err("both delayq-due and delayq-delay are set".to_owned()),
            (Some(at), None) => moment("due", at).map(|at| Some(Due::At(at))),
            (None, Some(delay)) => due(delay, published).map(Some),
            (None, None) => Ok(None),
        }
    }

    /// Refuses headers that mean nothing with a verb.
    fn none_of(&self, names: &[&str], verb: &str) -> Result<(), String> {
        match names.iter().find(|name| self.texts.contains_key(**name)) {
            None => Ok(()),
            Some(name) => Err(format!("a {verb} takes no delayq-{name}")),
        }
    }
}

/// `+5m`, `-30s`.
fn shift(text: &str) -> Result<Shift, String> {
    let wrong = |error: String| format!("delayq-by is {text:?}: {error}");
    let by = |text: &str| text.parse::<HumanDuration>().map(std::time::Duration::from).map_err(wrong);
    match (text.strip_prefix('+'), text.strip_prefix('-')) {
        (Some(later), _) => by(later).map(Shift::Later),
        (None, Some(earlier)) => by(earlier).map(Shift::Earlier),
        (None, None) => Err(wrong("expected a duration with its sign, such as +5m".to_owned())),
    }
}

#[allow(clippy::needless_pass_by_value, reason = "the shape that map_err wants")]
fn text(error: impl ToString) -> String {
    error.to_string()
}
