//! The environment of the process. No other file reads it.

#![allow(clippy::disallowed_methods, reason = "this is the module that reads the environment")]

use std::ffi::OsString;

/// The prefix of variables that override a setting.
pub const PREFIX: &str = "DELAYQ__";
/// The prefix of every variable of delayq. Kubernetes adds more such variables for each service whose name begins so, none of
/// them with two underscores.
const OWN: &str = "DELAYQ_";

/// The variables `DELAYQ__SECTION__KEY=value` that override the file.
///
/// The rest of the name in lower case, split at `__`, is the path of the setting: `DELAYQ__REDIS__CALL_DEADLINE=1s` is
/// `redis.call_deadline`. The value is read as TOML, or else as a plain string, so neither `1s` nor `16` needs quotes.
/// Names in lower case or with empty parts are refused, and so is `DELAYQ_REDIS__URL`, a prefix with one underscore.
#[derive(Clone, Debug, Default)]
pub struct Environment(Vec<Variable>);

#[derive(Clone)]
pub(super) struct Variable {
    pub(super) name: String,
    pub(super) path: Vec<String>,
    /// Or why the text is unusable.
    pub(super) text: Result<String, &'static str>,
}

// === impl Environment ===

impl Environment {
    /// The variables of this process.
    #[must_use]
    pub fn of_process() -> Self {
        Self::of(std::env::vars_os())
    }

    /// No variables at all.
    #[must_use]
    pub fn empty() -> Self {
        Self::default()
    }

    /// Selects the variables that override a setting, sorted by name.
    pub fn of<N: Into<OsString>, T: Into<OsString>>(variables: impl IntoIterator<Item = (N, T)>) -> Self {
        let mut overriding: Vec<Variable> = variables
            .into_iter()
            .filter_map(|(name, text)| Variable::read(&name.into(), text.into()))
            .collect();
        overriding.sort_by(|one, other| one.name.cmp(&other.name));
        Self(overriding)
    }

    /// The names of the overriding variables, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|variable| variable.name.as_str())
    }

    pub(super) fn variables(&self) -> &[Variable] {
        &self.0
    }
}

// === impl Variable ===

impl Variable {
    fn read(name: &OsString, text: OsString) -> Option<Self> {
        let name = name.to_string_lossy().into_owned();
        name.strip_prefix(OWN).filter(|rest| rest.starts_with('_') || rest.contains("__"))?;
        let path = name.strip_prefix(PREFIX).unwrap_or_default();
        let sound = !path.chars().any(char::is_lowercase) && path.split("__").all(|part| !part.is_empty());
        let text = match text.into_string() {
            Ok(text) if sound => Ok(text),
            Ok(_) => Err("not the name of a setting; write DELAYQ__SECTION__KEY in upper case"),
            Err(_) => Err("the value is not UTF-8"),
        };
        let path = path.split("__").map(str::to_ascii_lowercase).collect();
        Some(Self { name, path, text })
    }
}

impl std::fmt::Debug for Variable {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The value may be a secret.
        out.write_str(&self.name)
    }
}

pub(super) fn variable(name: &str) -> Result<String, String> {
    match std::env::var(name) {
        Ok(text) if text.is_empty() => Err(format!("the environment variable {name} is empty")),
        Ok(text) => Ok(text),
        Err(std::env::VarError::NotPresent) => Err(format!("the environment variable {name} is not set")),
        Err(std::env::VarError::NotUnicode(_)) => {
            Err(format!("the environment variable {name} is not UTF-8"))
        }
    }
}

pub(crate) struct LogEnvironment {
    /// `RUST_LOG`, unless it is empty.
    pub(crate) filter: Option<String>,
    /// True if `NO_COLOR` is set to any value.
    pub(crate) no_colour: bool,
}

// === impl LogEnvironment ===

impl LogEnvironment {
    pub(crate) fn of_process() -> Self {
        let filter = std::env::var("RUST_LOG").ok().filter(|filter| !filter.is_empty());
        let no_colour = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Self { filter, no_colour }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_its_own_prefix_counts_and_is_split_into_a_path() {
        let environment =
            Environment::of([("DELAYQ__REDIS__CALL_DEADLINE", "1s"), ("DELAYQ_CONFIG", "x"), ("HOME", "/")]);
        assert_eq!(environment.names().collect::<Vec<_>>(), ["DELAYQ__REDIS__CALL_DEADLINE"]);
        assert_eq!(environment.variables()[0].path, ["redis", "call_deadline"]);
    }

    #[test]
    fn a_name_that_can_reach_no_setting_is_kept_as_a_fault() {
        for name in ["DELAYQ__redis__URL", "DELAYQ__", "DELAYQ__REDIS____URL", "DELAYQ_REDIS__URL"] {
            assert!(Environment::of([(name, "x")]).variables()[0].text.is_err(), "{name}");
        }
    }
}
