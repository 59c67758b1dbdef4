//! Putting a message a line, or an array of events: answers are written while lines still come, in the order of the lines.
//!
//! Reading does not wait for a client that reads no answers: many send everything first. At most [`MAX_UNREAD`] bytes of
//! answers are kept for such a client; then the request ends, and its closing line says so.

use super::answer::{Answer, typed};
use super::put;
use crate::input::{Ask, Form, Lines, must_be_object};
use crate::problem::{Kind, Problem};
use crate::state::Scope;
use axum::body::Body;
use axum::http::StatusCode;
use axum::response::Response;
use bytes::Bytes;
use delayq::{Fate, Message, Put};
use delayq_service::json::{put as json_of, put_word};
use delayq_service::put_line;
use futures_util::StreamExt as _;
use futures_util::stream::{self, FuturesOrdered};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::mpsc;

const MAX_BATCH: usize = 500;
const MAX_CALLS: usize = 4;
/// Maximum bytes of answers that the client has not taken.
const MAX_UNREAD: usize = 1024 * 1024;

/// The number of the line.
type Numbered = (u64, Result<Message, Problem>);

struct LineAnswers {
    sender: mpsc::UnboundedSender<Bytes>,
    unread: Arc<AtomicUsize>,
    outcomes: BTreeMap<&'static str, u64>,
}

struct Coming {
    lines: Lines,
    number: u64,
    past_ok: bool,
    /// Maximum lines of a batch.
    most: usize,
    /// `Some`: no further line comes; why, unless the body has ended.
    end: Option<Option<Problem>>,
}

pub(super) async fn put_many(ask: Ask) -> Answer {
    match ask.form() {
        Form::Events => put_events(ask).await,
        _ if put::is_event(&ask)? => put::event(ask).await,
        _ => put_lines(ask),
    }
}

fn put_lines(ask: Ask) -> Answer {
    let (past_ok, scope) = (ask.past_ok()?, ask.scope.clone());
    let most = scope.most_of(MAX_BATCH);
    let coming = Coming { lines: ask.lines()?, number: 0, past_ok, most, end: None };
    let (answers, response) = answers();
    tokio::spawn(answer(scope, coming, answers));
    Ok(response)
}

/// The number of an event is its place in the array, from 1.
async fn put_events(ask: Ask) -> Answer {
    let (past_ok, scope) = (ask.past_ok()?, ask.scope.clone());
    let events = ask.events().await?;
    let (mut answers, response) = answers();
    tokio::spawn(async move {
        let numbered: Vec<Numbered> = (1..)
            .zip(events.texts())
            .map(|(number, event)| (number, put::message_of_event(event.as_bytes(), past_ok)))
            .map(|(number, message)| (number, message.map_err(|problem| problem.fate(Fate::NotApplied))))
            .collect();
        let count = numbered.len() as u64;
        let mut problem = None;
        for step in scope.steps(numbered) {
            problem = problem.or(answers.write(put_batch(&scope, step).await).err());
        }
        answers.close(count, problem);
    });
    Ok(response)
}

/// The answers, and the response that has them as its body.
fn answers() -> (LineAnswers, Response) {
    let (sender, receiver) = mpsc::unbounded_channel::<Bytes>();
    let unread = Arc::new(AtomicUsize::new(0));
    let answers = LineAnswers { sender, unread: Arc::clone(&unread), outcomes: BTreeMap::new() };
    let body = stream::unfold(
        (receiver, unread),
        |(mut receiver, unread): (mpsc::UnboundedReceiver<Bytes>, Arc<AtomicUsize>)| async move {
            let bytes = receiver.recv().await?;
            unread.fetch_sub(bytes.len(), Ordering::Relaxed);
            Some((Ok::<_, Infallible>(bytes), (receiver, unread)))
        },
    );
    (answers, typed(StatusCode::OK, "application/x-ndjson", Body::from_stream(body)))
}

/// Puts until the lines end, the client is gone, or it leaves too many answers unread.
async fn answer(scope: Scope, mut coming: Coming, mut answers: LineAnswers) {
    let mut calls = FuturesOrdered::new();
    loop {
        let reads = coming.end.is_none() && calls.len() < MAX_CALLS;
        tokio::select! {
            batch = coming.batch(), if reads => calls.push_back(put_batch(&scope, batch)),
            Some(values) = calls.next(), if !calls.is_empty() => {
                if let Err(problem) = answers.write(values) {
                    coming.end = Some(Some(problem));
                    break;
                }
            }
            else => break,
        }
    }
    let problem = coming.end.flatten();
    if problem.is_some() {
        coming.lines.discard();
    }
    answers.close(coming.number, problem);
}

async fn put_batch(scope: &Scope, batch: Vec<Numbered>) -> Vec<(&'static str, Value)> {
    let (lines, messages): (Vec<u64>, Vec<_>) = batch.into_iter().unzip();
    let puts = scope.put_many(messages).await;
    let answer = |(line, put): (u64, Result<Put, Problem>)| {
        let (word, mut value) = match put {
            Ok(put) => (put_word(&put.outcome), json_of(&put.reference, &put.outcome)),
            Err(problem) => ("failed", problem.item()),
        };
        value["line"] = line.into();
        (word, value)
    };
    lines.into_iter().zip(puts).map(answer).collect()
}

// === impl Coming ===

impl Coming {
    /// The next lines: one, and all that have come by then. Cancel safe: nothing is awaited once a line was taken.
    async fn batch(&mut self) -> Vec<Numbered> {
        let mut batch = Vec::new();
        let mut next = self.lines.next().await;
        loop {
            match next {
                Ok(Some(line)) => self.take(&line, &mut batch),
                Ok(None) => self.end = Some(None),
                Err(problem) => self.end = Some(Some(problem)),
            }
            if self.end.is_some() || batch.len() >= self.most {
                return batch;
            }
            match self.lines.ready() {
                Some(ready) => next = ready,
                None => return batch,
            }
        }
    }

    fn take(&mut self, line: &[u8], batch: &mut Vec<Numbered>) {
        self.number += 1;
        if line.trim_ascii().is_empty() {
            return;
        }
        let message = must_be_object(line).and_then(|()| {
            let message = put_line::parse_anywhere(line, put_line::Named::default(), self.past_ok);
            message.map_err(|why| Problem::new(Kind::Invalid, why))
        });
        batch.push((self.number, message.map_err(|problem| problem.fate(Fate::NotApplied))));
    }
}

// === impl LineAnswers ===

impl LineAnswers {
    fn write(&mut self, values: Vec<(&'static str, Value)>) -> Result<(), Problem> {
        let mut text = String::new();
        for (word, value) in values {
            *self.outcomes.entry(word).or_default() += 1;
            text += &value.to_string();
            text.push('\n');
        }
        match self.send(text) {
            unread if unread > MAX_UNREAD => {
                let why = format!("the client left {unread} bytes of answers unread: read while sending");
                Err(Problem::new(Kind::TooSlow, why))
            }
            _ if self.sender.is_closed() => Err(Problem::new(Kind::Malformed, "the client is gone")),
            _ => Ok(()),
        }
    }

    fn close(self, lines: u64, problem: Option<Problem>) {
        let mut value = problem.map_or_else(|| json!({}), |problem| problem.item());
        value["lines"] = lines.into();
        value["outcomes"] = json!(self.outcomes);
        self.send(format!("{value}\n"));
    }

    /// Returns how many bytes the client has not taken.
    fn send(&self, text: String) -> usize {
        let bytes = Bytes::from(text);
        let unread = self.unread.fetch_add(bytes.len(), Ordering::Relaxed) + bytes.len();
        // A client that is gone reads no answers.
        let _ = self.sender.send(bytes);
        unread
    }
}
