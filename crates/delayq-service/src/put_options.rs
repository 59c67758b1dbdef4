//! What a put asks for besides its payload, each option as a text: of headers of a request or a record, or of attributes of an
//! event.

use crate::config::{HumanDuration, backoff};
use crate::put_line::again;
use crate::when::{Spreading, When};
use delayq::protocol::Window;
use delayq::{Due, Message, UnixMillis};
use std::fmt::Display;
use std::time::Duration;

/// The options that [`described`] reads, as headers name them behind `delayq-`.
pub const OPTIONS: [&str; 8] =
    ["between", "jitter", "expires", "expire-after", "max-attempts", "backoff", "replace", "again"];

/// An option whose text is invalid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OddOption {
    /// The option.
    pub name: &'static str,
    /// The fault, as a sentence without its subject.
    pub why: String,
}

/// Completes a message that has its id, its group and its due time: the texts of the options describe the rest.
///
/// # Errors
/// The first invalid option.
pub fn described<'a>(
    mut message: Message,
    past_ok: bool,
    text: impl Fn(&str) -> Option<&'a str>,
) -> Result<Message, OddOption> {
    let given = |name| text(name).map(|text| (name, text));
    message.any_time = past_ok;
    let between = read(given("between"), str::parse::<Window>)?;
    let spread = if between.is_some() { "between" } else { "jitter" };
    let spreading = Spreading { between, jitter: read(given("jitter"), span)? };
    let id = message.id.as_ref().map(ToString::to_string);
    message.due = spreading.due(message.due, id.as_deref()).map_err(|why| OddOption { name: spread, why })?;
    message.expires = read(given("expires"), |text| moment(text, past_ok))?;
    message.expire_after = read(given("expire-after"), span)?;
    message.max_attempts = read(given("max-attempts"), number)?.unwrap_or(message.max_attempts);
    message.backoff = read(given("backoff"), backoff)?;
    message.replace = read(given("replace"), flag)?.unwrap_or_default();
    if let Some(mode) = read(given("again"), |text| again(text, message.replace))? {
        message.again = mode;
    }
    Ok(message)
}

/// Reads an absolute time.
///
/// # Errors
/// A sentence, also about a relative time.
pub fn moment(text: &str, past_ok: bool) -> Result<UnixMillis, String> {
    match When::anywhere(text)?.due(past_ok)? {
        Due::At(at) => Ok(at),
        Due::After(_) => Err("must be an absolute time".to_owned()),
    }
}

fn read<T, E: Display>(
    given: Option<(&'static str, &str)>,
    of: impl FnOnce(&str) -> Result<T, E>,
) -> Result<Option<T>, OddOption> {
    let read = |(name, text)| of(text).map_err(|why| OddOption { name, why: why.to_string() });
    given.map(read).transpose()
}

fn span(text: &str) -> Result<Duration, String> {
    text.parse::<HumanDuration>().map(|span| *span)
}

fn number(text: &str) -> Result<u16, &'static str> {
    text.parse().map_err(|_| "expected a number up to 65535")
}

fn flag(text: &str) -> Result<bool, &'static str> {
    text.parse().map_err(|_| "expected true or false")
}
