//! `delayq put`: a single message from arguments, or many from NDJSON.

use crate::backup_line::is_record;
use crate::commands::put::many::{InputLine, LineFault, Lines, Many};
use crate::deployment::Context;
use crate::failure::{self, of_core, refused, usage};
use crate::output::complain;
use clap::{ArgGroup, Args, value_parser};
use delayq::protocol::{ContentHash, Window};
use delayq::{Due, Message, MessageId, Put as Answer, PutError, PutOutcome, Topic};
use delayq_service::config::HumanDuration;
use delayq_service::when::{Spreading, When};
use delayq_service::{Fault, json, put_line};
use sentence::sentence;
use std::io::{IsTerminal as _, Read as _};
use std::path::PathBuf;

pub(crate) mod many;
mod sentence;

/// Put a message, or many from a file or standard input
///
/// One: delayq put orders '{"order":17}' --at 'tomorrow 09:00 Europe/Berlin' --id order-17,
/// or with the payload from a pipe: printf %s '{"order":17}' | delayq put orders --in 30m.
/// Many: delayq put --from orders.ndjson, one message per line:
/// {"topic":"orders","id":"order-17","due":"+30m","payload":{"order":17}}
#[derive(Debug, Args)]
#[command(verbatim_doc_comment, group = ArgGroup::new("times").multiple(true).args(["at", "expires", "from"]))]
pub struct Put {
    /// The topic; with --from, the topic of lines that name none
    topic: Option<Topic>,
    /// The payload. Without it, or as -, it is read from standard input, byte for byte, but not from a terminal
    #[arg(conflicts_with_all = ["payload_file", "from"])]
    payload: Option<String>,
    /// Read the payload from this file; - for standard input
    #[arg(long, value_name = "FILE", conflicts_with = "from")]
    payload_file: Option<PathBuf>,
    /// When it is due: RFC 3339, +30m, 'tomorrow 09:00 Europe/Berlin', or ms since the epoch. Default: now. Repeated: a series, the
    /// messages ID/1, ID/2, … in the group ID, by which all that is pending of it is listed, moved and cancelled
    #[arg(long, value_name = "TIME", conflicts_with = "from", allow_hyphen_values = true)]
    at: Vec<When>,
    /// How long until it is due, by Redis's clock: 90s, 2h30m; may be repeated as --at
    #[arg(long = "in", value_name = "DURATION", conflicts_with_all = ["at", "from"], allow_hyphen_values = true)]
    after: Vec<HumanDuration>,
    /// Due in this daily window, not before --at or --in: '09:00-10:00 Europe/Berlin'. Each id has its own time in the window
    #[arg(long, value_name = "WINDOW", conflicts_with_all = ["from", "jitter"])]
    between: Option<Window>,
    /// Due later by up to this long; each id has its own delay, the same for a repeated put
    #[arg(long, value_name = "LONGEST", conflicts_with = "from")]
    jitter: Option<HumanDuration>,
    /// Your own id, by which a repeated put is recognised
    #[arg(long, short = 'i', conflicts_with = "from")]
    id: Option<String>,
    /// Your own key, by which pending messages can be listed, rescheduled and cancelled together
    #[arg(long, short = 'g', conflicts_with = "from")]
    group: Option<String>,
    /// A header, delivered with the payload; may be repeated
    #[arg(long = "header", short = 'H', value_name = "NAME=VALUE", conflicts_with = "from", value_parser = header)]
    headers: Vec<(String, String)>,
    /// Expiry: the message is not delivered after this time
    #[arg(long, value_name = "TIME", conflicts_with = "from", allow_hyphen_values = true)]
    expires: Option<When>,
    /// How long after its due time it expires; a reschedule moves the expiry too
    #[arg(long, value_name = "LIFETIME", conflicts_with_all = ["from", "expires"])]
    expire_after: Option<HumanDuration>,
    /// Attempts before it becomes a dead letter. Default: the topic's
    #[arg(long, value_name = "COUNT", conflicts_with = "from", value_parser = value_parser!(u16).range(1..))]
    max_attempts: Option<u16>,
    /// Replace a message with the same id
    #[arg(long, conflicts_with = "from")]
    replace: bool,
    /// Replace a message with the same id; a pending one is due again at the new time, at most this long after its first put
    #[arg(long, value_name = "LONGEST", conflicts_with = "from", group = "rule")]
    debounce: Option<HumanDuration>,
    /// Replace a message with the same id; a pending one keeps its due time, and behind a delivery it is due at least this long
    /// after the due time of that: at once, then at most once in the window
    #[arg(long, value_name = "WINDOW", conflicts_with = "from", group = "rule")]
    throttle: Option<HumanDuration>,
    /// As --throttle, but a put that meets a pending or leased message, or a delivery in the window, is dropped
    #[arg(long, value_name = "WINDOW", conflicts_with = "from", group = "rule")]
    swallow: Option<HumanDuration>,
    /// Replace a message with the same id; a pending one keeps its due time if that is later
    #[arg(long, conflicts_with = "from", group = "rule")]
    only_later: bool,
    /// Replace a message with the same id; a pending one keeps its due time if that is sooner
    #[arg(long, conflicts_with = "from", group = "rule")]
    only_sooner: bool,
    /// Replace a message with the same id; a pending one keeps its due time: only its content changes
    #[arg(long, conflicts_with = "from", group = "rule")]
    only_content: bool,
    /// Replace only a pending message that is due at this time, as a listing shows it
    #[arg(long, value_name = "TIME", conflicts_with = "from", allow_hyphen_values = true)]
    expected: Option<When>,
    /// Replace only a pending message whose content has this hash, as 'delayq get --json' shows it
    #[arg(long, value_name = "HASH", conflicts_with = "from")]
    expected_content: Option<ContentHash>,
    /// Replace a message with the same id; a pending one keeps its payload, headers and options
    #[arg(long, conflicts_with = "from")]
    keep_content: bool,
    /// Put many messages from this file, one JSON object per line; - for standard input
    #[arg(long, value_name = "FILE")]
    from: Option<PathBuf>,
    /// Accept milliseconds before 2001 or after 9999, which are refused otherwise: seconds or microseconds are usually meant
    #[arg(long, requires = "times")]
    past_ok: bool,
    /// With --from: stop at the first line that is refused
    #[arg(long, requires = "from", conflicts_with_all = ["payload", "payload_file"])]
    strict: bool,
    /// With --from: how many puts may be in flight
    #[arg(long, requires = "from", conflicts_with_all = ["payload", "payload_file"], default_value_t = 1024, value_parser = clap::value_parser!(u16).range(1..=16384))]
    in_flight: u16,
}

/// The lines of `--from`. Lines of a backup that are not messages are skipped.
struct MessageLines {
    topic: Option<Topic>,
    past_ok: bool,
}

// === impl MessageLines ===

impl Lines for MessageLines {
    async fn line(&mut self, line: &[u8]) -> Result<InputLine, LineFault> {
        if is_record(line) {
            return Ok(InputLine::Record);
        }
        let message = put_line::parse(line, self.topic.as_ref(), self.past_ok);
        message.map(|message| InputLine::Put(Box::new(message))).map_err(LineFault::Refused)
    }
}

// === impl Put ===

impl Put {
    /// Puts the messages.
    ///
    /// # Errors
    /// A message was refused, or Redis cannot be used.
    pub async fn run(self, context: &Context) -> Result<(), Fault> {
        if let Some(from) = self.from {
            let in_flight = self.in_flight.into();
            let many = Many { from, from_line: 1, strict: self.strict, in_flight };
            let mut lines = MessageLines { topic: self.topic, past_ok: self.past_ok };
            return many.run(context, &context.producer()?, &mut lines).await;
        }
        let topic = self.topic.clone();
        let messages = self.messages(context).await?;
        let new = match &topic {
            Some(topic) if !context.output.json => context.new_topic(topic).await,
            _ => None,
        };
        let is_series = messages.len() > 1;
        let (mut answers, mut faults) = (Vec::new(), Vec::new());
        for answer in context.producer()?.put_many(messages).await {
            match answer.map_err(of_put) {
                Ok(answer) => {
                    faults.extend(not_stored(&answer));
                    answers.push(answer);
                }
                Err(fault) => faults.push(fault),
            }
        }
        print(context, &answers, is_series)?;
        let last = answers.last();
        let remembered = match (&topic, last) {
            (Some(topic), Some(answer)) if !context.output.json => remembered(context, topic, answer).await,
            _ => None,
        };
        let stored = new.filter(|_| last.is_some_and(|answer| answer.outcome.is_accepted()));
        for hint in stored.into_iter().chain(remembered) {
            complain(&hint);
        }
        let mut faults = faults.into_iter();
        let first = faults.next();
        faults.for_each(|fault| complain(&fault.to_string()));
        first.map_or(Ok(()), Err)
    }

    /// One message, or those of a series.
    async fn messages(mut self, context: &Context) -> Result<Vec<Message>, Fault> {
        let mut dues = Vec::new();
        for at in std::mem::take(&mut self.at) {
            dues.push(at.due(self.past_ok).map_err(usage)?);
        }
        dues.extend(std::mem::take(&mut self.after).into_iter().map(|after| Due::After(*after)));
        let spread = Spreading { between: self.between.take(), jitter: self.jitter.map(|longest| *longest) };
        let message = self.message(context).await?;
        let mut messages = match dues.as_slice() {
            [] => vec![message],
            &[due] => vec![message.due(due)],
            _ => message.series(dues).map_err(usage)?,
        };
        for message in &mut messages {
            let id = message.id.as_ref().map(ToString::to_string);
            message.due = spread.due(message.due, id.as_deref()).map_err(usage)?;
        }
        Ok(messages)
    }

    async fn message(self, context: &Context) -> Result<Message, Fault> {
        let topic = self.topic.ok_or_else(|| usage("TOPIC or --from FILE is required"))?;
        let payload = payload(self.payload, self.payload_file)?;
        let mut message = Message::new(topic, payload).max_attempts(self.max_attempts.unwrap_or(0));
        message.any_time = self.past_ok;
        if let Some(id) = self.id {
            message = message.with_id(id.parse().map_err(usage)?);
        }
        if let Some(group) = self.group {
            message = message.group(group).map_err(usage)?;
        }
        for (name, value) in self.headers {
            message = message.header(name, value);
        }
        if let Some(expires) = self.expires {
            message = message.expires(match expires.due(self.past_ok).map_err(usage)? {
                Due::At(at) => at,
                Due::After(delay) => context.now().await? + delay,
            });
        }
        if let Some(lifetime) = self.expire_after {
            message = message.expire_after(*lifetime);
        }
        message.replace = self.replace;
        if let Some(longest) = self.debounce {
            message = message.debounce(*longest);
        }
        if let Some(window) = self.throttle {
            message = message.throttle(*window);
        }
        if let Some(window) = self.swallow {
            message = message.swallow(*window);
        }
        if self.only_later {
            message = message.only_later();
        }
        if self.only_sooner {
            message = message.only_sooner();
        }
        if self.only_content {
            message = message.only_content();
        }
        match self.expected.map(|when| when.due(true)).transpose().map_err(usage)? {
            Some(Due::At(due)) => message = message.expecting(due),
            Some(Due::After(_)) => return Err(usage("--expected must be an absolute time")),
            None => {}
        }
        if let Some(hash) = self.expected_content {
            message = message.expecting(hash);
        }
        Ok(if self.keep_content { message.keep_content() } else { message })
    }
}

/// One answer as an object; those of a series as an array.
fn print(context: &Context, answers: &[Answer], is_series: bool) -> Result<(), Fault> {
    let mut values = answers.iter().map(|answer| json::put(&answer.reference, &answer.outcome));
    let value = if is_series { Some(values.collect()) } else { values.next() };
    let text = || answers.iter().map(sentence).collect::<Vec<_>>().join("\n");
    value.map_or(Ok(()), |value: serde_json::Value| context.output.print(&value, text))
}

fn not_stored(answer: &Answer) -> Option<Fault> {
    let id = &answer.reference.id;
    match &answer.outcome {
        outcome if outcome.is_accepted() => None,
        PutOutcome::Refused(why) if why.starts_with("throttle ") || why.starts_with("swallow ") => {
            Some(usage(format!("{id} was not stored: its {why}")))
        }
        PutOutcome::Refused(why) => Some(usage(format!("{id} was not stored: its {why} is out of range"))),
        _ => Some(refused(format!("{id} was not stored"))),
    }
}

fn payload(text: Option<String>, file: Option<PathBuf>) -> Result<Vec<u8>, Fault> {
    match (text, file) {
        (Some(text), _) if text != "-" => Ok(text.into_bytes()),
        (None, Some(path)) if path.as_os_str() != "-" => {
            std::fs::read(&path).map_err(|error| failure::file(&path, "read", error))
        }
        (None, None) if std::io::stdin().is_terminal() => {
            Err(usage("no payload: write it after the topic, or give --payload-file; '' is an empty payload"))
        }
        _ => {
            let mut bytes = Vec::new();
            let read = std::io::stdin().lock().read_to_end(&mut bytes);
            read.map_err(|error| failure::file("standard input".as_ref(), "read", error))?;
            Ok(bytes)
        }
    }
}

fn header(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("must be NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

fn of_put(error: PutError) -> Fault {
    let fate = match (error.error.fate(), &error.reference) {
        (delayq::Fate::Unknown, Some(reference)) => format!(
            "the message may or may not be stored; it is safe to put it again with --id '{}'",
            reference.id
        ),
        _ => return of_core(error.error),
    };
    let cause = of_core(error.error);
    Fault::new(cause.code(), fate).because(cause)
}

/// Time for which a repeated put of an own id is recognised, as the end of a sentence.
async fn remembered(context: &Context, topic: &Topic, answer: &Answer) -> Option<String> {
    let stored = matches!(answer.outcome, PutOutcome::Stored(_) | PutOutcome::Ready(_));
    if !stored || !matches!(answer.reference.id, MessageId::Own(_)) {
        return None;
    }
    let policy = context.admin().topic(topic).policy().await.ok()?.in_force();
    let remembered = HumanDuration::from(policy.remember_own?);
    Some(format!(
        "the id stays known until {remembered} after the message finishes: delayq topic set {topic} \
         --remember-own"
    ))
}
