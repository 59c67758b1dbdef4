//! Loading: file, environment, types, validation; the faults of all steps are reported together.

use super::document::{Document, Location, Misfit};
use super::environment::Environment;
use super::faults::{ConfigFault, ConfigFaults, Faults};
use super::fields::fields_of;
use super::locations::Locations;
use super::section::Section;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The sections of all binaries. A binary ignores sections of other binaries.
pub const SECTIONS: &[&str] = &[
    "deployment",
    "redis",
    "etcd",
    "admin",
    "log",
    "shutdown",
    "traces",
    "spool",
    "outbox",
    "timer",
    "sweep",
    "forwarder",
    "sinks",
    "routes",
    "compensator",
    "intake",
    "gateway",
    "lmstfy",
];

/// The source of the TOML.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// No file: the defaults and the environment.
    Defaults,
    /// A file that must exist.
    File(PathBuf),
    /// A text, with a name for its faults.
    Text {
        /// The name.
        name: String,
        /// The TOML.
        text: String,
    },
}

/// A configuration without faults.
#[derive(Clone, Debug)]
pub struct Loaded<C> {
    /// The configuration.
    pub config: C,
    /// The source, for the log: a file name, or `the defaults`.
    pub source: String,
    /// The overriding environment variables, by name.
    pub overridden: Vec<String>,
    /// The location of each key.
    pub locations: Locations,
}

// === impl Source ===

impl Source {
    /// The given file, else the defaults.
    #[must_use]
    pub fn from_option(path: Option<PathBuf>) -> Self {
        path.map_or(Self::Defaults, Self::File)
    }

    /// A text with a name.
    #[must_use]
    pub fn text(name: impl Into<String>, text: impl Into<String>) -> Self {
        Self::Text { name: name.into(), text: text.into() }
    }

    fn read(&self) -> Result<(String, String), ConfigFaults> {
        match self {
            Self::Defaults => Ok(("the defaults".to_owned(), String::new())),
            Self::Text { name, text } => Ok((name.clone(), text.clone())),
            Self::File(path) => {
                let name = path.display().to_string();
                match std::fs::read_to_string(path) {
                    Ok(text) => Ok((name, text)),
                    Err(error) => Err(ConfigFaults::unreadable(name, &error)),
                }
            }
        }
    }
}

/// Reads a configuration and validates it.
///
/// # Errors
/// Every fault at once: unreadable syntax, unknown keys, wrong types, values out of range, contradictions; each with
/// its key and its line or variable. Nothing is clamped or ignored.
pub fn load<C: Section>(source: &Source, environment: &Environment) -> Result<Loaded<C>, ConfigFaults> {
    let (source, text) = source.read()?;
    let (document, misfits) = Document::parse(&text, environment);
    let locations = Locations::new(&source, document.locations());
    let mut loading = Loading { document, locations, faults: Vec::new(), first_messages: BTreeMap::new() };
    for misfit in misfits {
        loading.keep(misfit);
    }
    loading.ignore_foreign::<C>();
    let config = loading.read::<C>();
    if let Some(config) = &config {
        loading.validate(config);
    }
    match config {
        Some(config) if loading.faults.is_empty() => {
            let overridden = environment.names().map(str::to_owned).collect();
            Ok(Loaded { config, source, overridden, locations: loading.locations })
        }
        _ => Err(ConfigFaults::faulty(source, loading.faults)),
    }
}

struct Loading<'i> {
    document: Document<'i>,
    locations: Locations,
    faults: Vec<ConfigFault>,
    first_messages: BTreeMap<usize, String>,
}

// === impl Loading ===

impl Loading<'_> {
    fn ignore_foreign<C: Section>(&mut self) {
        let own = fields_of::<C>();
        self.document.remove_sections(|name| SECTIONS.contains(&name) && !own.contains(&name));
    }

    /// serde stops at the first fault: removes that key, keeps the fault, and retries until the rest is readable.
    fn read<C: Section>(&mut self) -> Option<C> {
        loop {
            let misfit = match self.document.read::<C>() {
                Ok(config) => return Some(config),
                Err(misfit) => misfit,
            };
            let Some(span) = misfit.span.clone() else {
                self.keep(misfit);
                return None;
            };
            if let Some(variable) = self.document.reread_as_string(&span) {
                self.first_messages.insert(variable, misfit.message);
                continue;
            }
            self.keep(misfit);
            if !self.document.remove(&span) {
                return None;
            }
        }
    }

    /// Omits faults of unreadable keys, whose values are defaults.
    fn validate<C: Section>(&mut self, config: &C) {
        let unread: Vec<String> = self.faults.iter().map(|fault| fault.key.clone()).collect();
        let mut at = Faults::default();
        config.validate(&mut at);
        for found in at.into_found() {
            let keys: Vec<String> = found.keys.iter().map(|key| self.document.path_as_written(key)).collect();
            if !keys.iter().any(|key| touches_one(key, &unread)) {
                let key = keys.into_iter().next().unwrap_or_default();
                let location = self.locations.location(&key).clone();
                self.faults.push(ConfigFault { key, location, message: found.message });
            }
        }
    }

    fn keep(&mut self, misfit: Misfit) {
        let Misfit { span, mut message } = misfit;
        let location = span.as_ref().map_or(Location::Whole, |span| self.document.location_of(span));
        let key = span.as_ref().and_then(|span| self.document.path_at(span)).unwrap_or_default().to_owned();
        let variable = span.as_ref().and_then(|span| self.document.variable_at(span));
        if let Some(first) = variable.and_then(|variable| self.first_messages.remove(&variable)) {
            message = first;
        }
        self.faults.push(ConfigFault { key, location, message });
    }
}

/// True if a key equals, contains or lies within one of the others.
fn touches_one(key: &str, others: &[String]) -> bool {
    let inside = |inner: &str, outer: &str| {
        inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
    };
    others.iter().any(|other| !other.is_empty() && (inside(other, key) || inside(key, other)))
}
