//! The error that ends a process: a stable code, a sentence, and the cause.

use crate::codes::{Code, redis};
use crate::exit::Exit;
use std::error::Error;
use std::fmt;

/// An operator-facing error.
///
/// Crates convert their own errors into a fault where an operator sees them: at start, and where a task gives up. A
/// fault prints as `DQ-P001: cannot listen on 127.0.0.1:9440: address in use`.
#[derive(Debug)]
pub struct Fault {
    code: &'static Code,
    message: String,
    source: Option<Box<dyn Error + Send + Sync>>,
}

// === impl Fault ===

impl Fault {
    /// A fault with a sentence about the event.
    #[must_use]
    pub fn new(code: &'static Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), source: None }
    }

    /// The fault of a program that cannot do that because of its Redis.
    #[must_use]
    pub fn of_redis(cannot: &str, error: delayq::Error) -> Self {
        let code = redis::cause_of(&error).unwrap_or(&redis::BUG);
        Self::new(code, format!("cannot {cannot}")).because(error)
    }

    /// Adds the underlying error.
    #[must_use]
    pub fn because(mut self, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// The code.
    #[must_use]
    pub fn code(&self) -> &'static Code {
        self.code
    }

    /// The text without the code: the message, and the cause.
    #[must_use]
    pub fn message(&self) -> String {
        let mut said = self.message.clone();
        let mut cause: Option<&dyn Error> = self.source.as_ref().map(|source| &**source as &dyn Error);
        while let Some(error) = cause {
            let text = error.to_string();
            let text =
                text.strip_prefix(self.code.id).and_then(|text| text.strip_prefix(": ")).unwrap_or(&text);
            // Many errors repeat their source's text.
            if !said.contains(text) {
                said = format!("{said}: {text}");
            }
            cause = error.source();
        }
        said
    }

    /// The exit code of a process that ends with this fault.
    #[must_use]
    pub fn exit(&self) -> Exit {
        self.code.exit
    }

    /// The message with cause and remedies, as a process prints last.
    #[must_use]
    pub fn explained(&self) -> String {
        let [first, second, third] = self.code.tries;
        format!("{self}\n{}\n  - {first}\n  - {second}\n  - {third}\n", self.code.cause)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", self.code.id, self.message())
    }
}

impl Error for Fault {}
