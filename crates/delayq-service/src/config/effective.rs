//! The effective configuration, written back as TOML.

use super::section::Section;

/// Every key with its value, secrets as `***`.
///
/// # Panics
/// If a section serialises to a value beyond TOML, which a test of its sample file shows.
#[must_use]
pub fn effective<C: Section>(config: &C) -> String {
    toml::to_string(config).expect("a configuration is made of tables and plain values")
}
