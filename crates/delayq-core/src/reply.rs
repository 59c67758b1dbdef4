//! The answers of scripts, and how to read them.

use crate::id::Topic;
use crate::script::Verb;

/// A value of Redis's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// Nothing.
    Nil,
    /// A number.
    Number(i64),
    /// Bytes, or a status.
    Bytes(Vec<u8>),
    /// Several values.
    Array(Vec<Value>),
    /// A value outside the scripts' answers, formatted.
    Other(String),
}

/// An unexpected reply from a script: incompatible versions, or a bug.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unexpected reply from script {script}: {answer}")]
pub struct ReplyError {
    /// The script.
    pub script: &'static str,
    /// The answer, shortened.
    pub answer: String,
}

/// The items of one answer, read from the front.
#[derive(Debug)]
pub struct Reply {
    verb: Verb,
    items: std::vec::IntoIter<Value>,
}

pub(crate) struct Words<'a> {
    text: &'a str,
    words: std::str::Split<'a, char>,
}

// === impl ReplyError ===

impl ReplyError {
    pub(crate) fn new(verb: Verb, answer: &str) -> Self {
        Self { script: verb.name(), answer: answer.chars().take(80).collect() }
    }
}

// === impl Reply ===

impl Reply {
    pub(crate) fn new(verb: Verb, value: Value) -> Result<Self, ReplyError> {
        match value {
            Value::Array(items) => Ok(Self { verb, items: items.into_iter() }),
            other => Err(ReplyError::new(verb, &format!("{other:?}"))),
        }
    }

    pub(crate) fn text_of(verb: Verb, value: Value) -> Result<String, ReplyError> {
        Self { verb, items: vec![value].into_iter() }.text()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.items.len() == 0
    }

    pub(crate) fn bytes(&mut self) -> Result<Vec<u8>, ReplyError> {
        match self.items.next() {
            Some(Value::Bytes(bytes)) => Ok(bytes),
            Some(Value::Number(n)) => Ok(n.to_string().into_bytes()),
            other => Err(self.unexpected(other)),
        }
    }

    /// A text. Invalid UTF-8 is replaced, so that a single unreadable item leaves the others readable.
    pub(crate) fn text(&mut self) -> Result<String, ReplyError> {
        Ok(String::from_utf8_lossy(&self.bytes()?).into_owned())
    }

    pub(crate) fn topic(&mut self) -> Result<Topic, ReplyError> {
        Ok(Topic::from_stored(&self.bytes()?))
    }

    pub(crate) fn number(&mut self) -> Result<u64, ReplyError> {
        self.maybe_number()?.ok_or_else(|| self.nonsense(""))
    }

    /// `None` for the empty text.
    pub(crate) fn maybe_number(&mut self) -> Result<Option<u64>, ReplyError> {
        match self.items.next() {
            Some(Value::Number(n)) => u64::try_from(n).map(Some).map_err(|_| self.nonsense(&n.to_string())),
            Some(Value::Bytes(text)) if text.is_empty() => Ok(None),
            Some(Value::Bytes(text)) => {
                let number = std::str::from_utf8(&text).ok().and_then(|text| text.parse().ok());
                number.map(Some).ok_or_else(|| self.nonsense(&String::from_utf8_lossy(&text)))
            }
            other => Err(self.unexpected(other)),
        }
    }

    /// A number that may be negative, such as a counter that drifted.
    pub(crate) fn signed(&mut self) -> Result<i64, ReplyError> {
        let text = self.text()?;
        text.parse().map_err(|_| self.nonsense(&text))
    }

    /// A counter. A negative counter is read as zero: the books then do not balance, and an audit reports the
    /// difference.
    pub(crate) fn counter(&mut self) -> Result<u64, ReplyError> {
        Ok(u64::try_from(self.signed()?).unwrap_or(0))
    }

    pub(crate) fn nonsense(&self, answer: &str) -> ReplyError {
        ReplyError::new(self.verb, answer)
    }

    fn unexpected(&self, item: Option<Value>) -> ReplyError {
        self.nonsense(&format!("{:?}", item.unwrap_or(Value::Nil)))
    }
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

    pub(crate) fn rest(&self) -> &'a str {
        self.text.split_once(' ').map_or("", |(_, rest)| rest)
    }
}
