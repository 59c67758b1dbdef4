//! Reading what a script answered.

use crate::{Error, script::Verb};
use redis::Value;

/// The items of one answer, read from the front.
pub(crate) struct Reply {
    verb: Verb,
    items: std::vec::IntoIter<Value>,
}

// === impl Reply ===

impl Reply {
    pub(crate) fn new(verb: Verb, value: Value) -> Result<Self, Error> {
        match value {
            Value::Array(items) => Ok(Self { verb, items: items.into_iter() }),
            other => Err(nonsense(verb, &other)),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.items.len() == 0
    }

    pub(crate) fn bytes(&mut self) -> Result<Vec<u8>, Error> {
        match self.items.next() {
            Some(Value::BulkString(bytes)) => Ok(bytes),
            Some(Value::SimpleString(text)) => Ok(text.into_bytes()),
            Some(Value::Int(n)) => Ok(n.to_string().into_bytes()),
            other => Err(nonsense(self.verb, &other.unwrap_or(Value::Nil))),
        }
    }

    pub(crate) fn text(&mut self) -> Result<String, Error> {
        let bytes = self.bytes()?;
        String::from_utf8(bytes).map_err(|error| self.nonsense(&String::from_utf8_lossy(error.as_bytes())))
    }

    pub(crate) fn number(&mut self) -> Result<u64, Error> {
        match self.items.next() {
            Some(Value::Int(n)) => u64::try_from(n).map_err(|_| self.nonsense(&n.to_string())),
            Some(Value::BulkString(text)) => {
                let text = String::from_utf8_lossy(&text).into_owned();
                text.parse().map_err(|_| self.nonsense(&text))
            }
            other => Err(nonsense(self.verb, &other.unwrap_or(Value::Nil))),
        }
    }

    /// A counter. One that drifted below zero is told as zero: then the books do not balance, and an audit says by how much.
    pub(crate) fn counter(&mut self) -> Result<u64, Error> {
        let text = self.text()?;
        let number: i64 = text.parse().map_err(|_| self.nonsense(&text))?;
        Ok(u64::try_from(number).unwrap_or(0))
    }

    /// A number, or `None` for the empty text.
    pub(crate) fn maybe_number(&mut self) -> Result<Option<u64>, Error> {
        match self.items.next() {
            Some(Value::Int(n)) => u64::try_from(n).map(Some).map_err(|_| self.nonsense(&n.to_string())),
            Some(Value::BulkString(text)) if text.is_empty() => Ok(None),
            Some(Value::BulkString(text)) => {
                let text = String::from_utf8_lossy(&text).into_owned();
                text.parse().map(Some).map_err(|_| self.nonsense(&text))
            }
            other => Err(nonsense(self.verb, &other.unwrap_or(Value::Nil))),
        }
    }

    pub(crate) fn nonsense(&self, answer: &str) -> Error {
        Error::Protocol { script: self.verb.name(), answer: answer.chars().take(80).collect() }
    }
}

/// An answer of one word, with arguments behind it.
pub(crate) struct Words<'a> {
    text: &'a str,
    words: std::str::Split<'a, char>,
}

// === impl Words ===

impl<'a> Words<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        Self { text, words: text.split(' ') }
    }

    pub(crate) fn word(&mut self) -> &'a str {
        self.words.next().unwrap_or_default()
    }

    pub(crate) fn number<T: std::str::FromStr>(&mut self) -> Option<T> {
        self.words.next()?.parse().ok()
    }

    /// All behind the first word.
    pub(crate) fn rest(&self) -> &'a str {
        self.text.split_once(' ').map_or("", |(_, rest)| rest)
    }
}

pub(crate) fn nonsense(verb: Verb, value: &Value) -> Error {
    Error::Protocol { script: verb.name(), answer: format!("{value:?}").chars().take(80).collect() }
}

/// An answer that is one text.
pub(crate) fn text_of(verb: Verb, reply: Value) -> Result<String, Error> {
    Reply::new(verb, Value::Array(vec![reply]))?.text()
}
