//! What a put asks for besides its payload, as texts: headers `Delayq-NAME`, or attributes `delayqNAME` of an event.

use crate::input::Ask;
use crate::problem::Problem;
use crate::table::DESCRIBING;
use delayq::{Due, Group, Message};
use delayq_service::config::HumanDuration;
use delayq_service::put_options::described;
use delayq_service::when::When;
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
        message.due = self.due()?.unwrap_or(message.due);
        message.group = self.get::<Group>("group")?;
        let text = |name: &str| self.texts.get(name).map(|(_, text)| text.as_str());
        described(message, self.past_ok, text)
            .map_err(|odd| Problem::invalid(&self.texts[odd.name].0, odd.why))
    }

    fn due(&self) -> Result<Option<Due>, Problem> {
        let due = self.read("due", |text| When::anywhere(text)?.due(self.past_ok))?;
        let delay = self.read("delay", |text| text.parse().map(|delay: HumanDuration| Due::After(*delay)))?;
        if let (Some(_), Some(_), Some((name, _))) = (due, delay, self.texts.get("delay")) {
            return Err(Problem::invalid(name, "the due time is set, too; keep one"));
        }
        Ok(due.or(delay))
    }
}
