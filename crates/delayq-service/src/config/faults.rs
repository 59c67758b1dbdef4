//! The faults of a configuration: collected during validation and reported all at once.

use super::document::Location;
use super::secret::Secret;
use crate::codes::{CONFIG_FAULTY, CONFIG_UNREADABLE, Code};
use crate::fault::Fault;
use std::fmt::{self, Display};
use std::ops::RangeInclusive;

/// The faults that [`Section::validate`](super::Section::validate) finds, each under its key.
///
/// Keys are relative to the validated section; [`section`](Self::section) and [`item`](Self::item) step into an inner
/// section.
#[derive(Debug, Default)]
pub struct Faults {
    prefix: String,
    found: Vec<FoundFault>,
}

#[derive(Debug)]
pub(super) struct FoundFault {
    /// Full paths; the first is displayed.
    pub(super) keys: Vec<String>,
    pub(super) message: String,
}

/// One fault of a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigFault {
    /// The path of the key, such as `redis.call_deadline`; empty if no key is to blame.
    pub key: String,
    /// The location of the key.
    pub location: Location,
    /// The fault and the accepted values. Never holds a secret.
    pub message: String,
}

/// All faults of a configuration, in the order of their lines.
#[derive(Debug, PartialEq, Eq)]
pub struct ConfigFaults {
    pub(super) code: &'static Code,
    pub(super) source: String,
    pub(super) faults: Vec<ConfigFault>,
}

// === impl Faults ===

impl Faults {
    /// Records a fault of one key. The message tells the accepted values.
    pub fn refuse(&mut self, key: &str, message: impl Into<String>) {
        self.contradiction(&[key], message);
    }

    /// Records a fault between several keys, shown at the first.
    ///
    /// # Panics
    /// Without any key.
    pub fn contradiction(&mut self, keys: &[&str], message: impl Into<String>) {
        assert!(!keys.is_empty(), "a fault names at least one key");
        let keys = keys.iter().map(|key| self.full(key)).collect();
        self.found.push(FoundFault { keys, message: message.into() });
    }

    /// Refuses a value outside an inclusive range.
    pub fn range<V: PartialOrd + Display>(&mut self, key: &str, value: &V, accepted: RangeInclusive<V>) {
        if !accepted.contains(value) {
            let (least, most) = (accepted.start(), accepted.end());
            self.refuse(key, format!("{value} is out of range, expected {least} to {most}"));
        }
    }

    /// Refuses a secret whose file or variable cannot be read.
    pub fn secret(&mut self, key: &str, secret: Option<&Secret>) {
        if let Some(Err(message)) = secret.map(Secret::reveal) {
            self.refuse(key, message);
        }
    }

    /// Refuses either setting without the other.
    pub fn together(&mut self, (one, is_set): (&str, bool), (other, other_is_set): (&str, bool)) {
        let keys = if is_set { [one, other] } else { [other, one] };
        if is_set != other_is_set {
            self.contradiction(&keys, format!("`{one}` and `{other}` belong together"));
        }
    }

    /// All faults as `KEY: MESSAGE`, for a configuration that was not read from a file.
    #[must_use]
    pub fn into_sentences(self) -> Vec<String> {
        self.found.into_iter().map(|FoundFault { keys, message }| format!("{}: {message}", keys[0])).collect()
    }

    pub(super) fn into_found(self) -> Vec<FoundFault> {
        self.found
    }

    pub(super) fn within(&mut self, key: &str, validate: impl FnOnce(&mut Self)) {
        let outer = self.prefix.clone();
        self.prefix = self.full(key);
        validate(self);
        self.prefix = outer;
    }

    fn full(&self, key: &str) -> String {
        match self.prefix.as_str() {
            "" => key.to_owned(),
            // The key is an element of the list at this prefix.
            prefix if key.starts_with('[') => format!("{prefix}{key}"),
            prefix => format!("{prefix}.{key}"),
        }
    }
}

// === impl ConfigFaults ===

impl ConfigFaults {
    pub(super) fn unreadable(source: String, error: &std::io::Error) -> Self {
        let fault = ConfigFault {
            key: String::new(),
            location: Location::Whole,
            message: format!("cannot be read: {error}"),
        };
        Self { code: &CONFIG_UNREADABLE, source, faults: vec![fault] }
    }

    pub(super) fn faulty(source: String, mut faults: Vec<ConfigFault>) -> Self {
        faults.sort_by(|one, other| one.location.cmp(&other.location));
        Self { code: &CONFIG_FAULTY, source, faults }
    }

    /// Each fault in the order of the lines, then the environment's faults by name.
    #[must_use]
    pub fn faults(&self) -> &[ConfigFault] {
        &self.faults
    }
}

impl Display for ConfigFaults {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (source, count) = (&self.source, self.faults.len());
        let plural = if count == 1 { "" } else { "s" };
        let of_variables = self.faults.iter().all(|fault| matches!(fault.location, Location::Variable(_)));
        write!(out, "{count} fault{plural} in {}", if of_variables { "the environment" } else { source })?;
        for fault in &self.faults {
            match &fault.location {
                Location::Line(line) => write!(out, "\n  {source}:{line}: ")?,
                Location::Variable(name) => write!(out, "\n  {name}: ")?,
                Location::Whole => write!(out, "\n  {source}: ")?,
            }
            if !fault.key.is_empty() {
                write!(out, "{}: ", fault.key)?;
            }
            // Keeps each fault on one line.
            out.write_str(&fault.message.replace('\n', " "))?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigFaults {}

impl From<ConfigFaults> for Fault {
    fn from(faults: ConfigFaults) -> Self {
        Self::new(faults.code, faults.to_string())
    }
}
