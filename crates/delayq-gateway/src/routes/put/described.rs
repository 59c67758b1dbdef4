//! What a put asks for besides its payload, as texts: headers `Delayq-NAME`, or attributes `delayqNAME` of an event.

use crate::input::Ask;
use crate::problem::{Kind, Problem};
use crate::table::DESCRIBING;
use delayq::protocol::Window;
use delayq::{Due, Group, Message, UnixMillis};
use delayq_service::config::{HumanDuration, backoff};
use delayq_service::put_line::again;
use delayq_service::when::{Spreading, When};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::str::FromStr;

const PREFIX: &str = "delayq-";

/// Further attributes of an event.
const OF_EVENTS: [&str; 3] = ["id", "topic", "delay"];

/// The texts, with the names that the client gave them.
#[derive(Debug, Default)]
pub(super) struct Described {
    texts: BTreeMap<&'static str, (String, String)>,
    past_ok: bool,
}

// === impl Described ===

impl Described {
    pub(super) fn new(past_ok: bool) -> Self {
        Self { past_ok, ..Self::default() }
    }

    pub(super) fn of_headers(ask: &Ask, past_ok: bool) -> Result<Self, Problem> {
        let mut described = Self::new(past_ok);
        for &name in DESCRIBING {
            if let Some(text) = ask.header(name)? {
                let option = &name[PREFIX.len()..];
                described.texts.insert(option, (name.to_owned(), text.to_owned()));
            }
        }
        Ok(described)
    }

    /// Takes an attribute of an event: `rest` is its name behind the prefix.
    pub(super) fn set_attribute(&mut self, name: &str, rest: &str, text: String) -> Result<(), Problem> {
        let options = DESCRIBING.iter().map(|name| &name[PREFIX.len()..]).chain(OF_EVENTS);
        let plain = |option: &str| option.replace('-', "");
        let Some(option) = options.clone().find(|option| plain(option) == rest) else {
            let known: Vec<String> = options.map(|option| format!("delayq{}", plain(option))).collect();
            let why = format!("unknown; known: {}", known.join(", "));
            return Err(Problem::invalid(name, why));
        };
        self.texts.insert(option, (name.to_owned(), text));
        Ok(())
    }

    pub(super) fn get<T: FromStr<Err: Display>>(&self, option: &str) -> Result<Option<T>, Problem> {
        self.read(option, str::parse)
    }

    fn read<T, E: Display>(
        &self,
        option: &str,
        of: impl FnOnce(&str) -> Result<T, E>,
    ) -> Result<Option<T>, Problem> {
        let read = |(name, text): &(String, String)| of(text).map_err(|why| Problem::invalid(name, why));
        self.texts.get(option).map(read).transpose()
    }

    /// As described. The message has its id already, by which its due time is spread.
    pub(super) fn message(&self, mut message: Message) -> Result<Message, Problem> {
        message.any_time = self.past_ok;
        message.due = self.due(&message)?;
        message.expires = self.read("expires", |text| moment(text, self.past_ok))?;
        if let Some(lifetime) = self.get::<HumanDuration>("expire-after")? {
            message = message.expire_after(*lifetime);
        }
        message.group = self.get::<Group>("group")?;
        message.max_attempts = self.get("max-attempts")?.unwrap_or(message.max_attempts);
        message.backoff = self.read("backoff", backoff)?;
        message.replace = self.read("replace", flag)?.unwrap_or_default();
        if let Some(again) = self.read("again", |text| again(text, message.replace))? {
            message.again = again;
        }
        Ok(message)
    }

    fn due(&self, message: &Message) -> Result<Due, Problem> {
        let due = self.read("due", |text| When::anywhere(text)?.due(self.past_ok))?;
        let delay = self.read("delay", |text| text.parse().map(|delay: HumanDuration| Due::After(*delay)))?;
        if let (Some(_), Some(_), Some((name, _))) = (due, delay, self.texts.get("delay")) {
            return Err(Problem::invalid(name, "the due time is set, too; keep one"));
        }
        let spreading = Spreading {
            between: self.get::<Window>("between")?,
            jitter: self.get::<HumanDuration>("jitter")?.map(|longest| *longest),
        };
        let id = message.id.as_ref().map(ToString::to_string);
        let spread = spreading.due(due.or(delay).unwrap_or(message.due), id.as_deref());
        spread.map_err(|why| match ["between", "jitter"].iter().find_map(|option| self.texts.get(*option)) {
            Some((name, _)) => Problem::invalid(name, why),
            None => Problem::new(Kind::Invalid, why),
        })
    }
}

/// An absolute time.
pub(super) fn moment(text: &str, past_ok: bool) -> Result<UnixMillis, String> {
    match When::anywhere(text)?.due(past_ok)? {
        Due::At(at) => Ok(at),
        Due::After(_) => Err("must be an absolute time".to_owned()),
    }
}

fn flag(text: &str) -> Result<bool, &'static str> {
    text.parse().map_err(|_| "must be true or false")
}
