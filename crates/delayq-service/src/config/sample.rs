//! Checks that a commented sample file has every key with its default.

use super::{Environment, Section, Source, effective, load};
use std::collections::BTreeSet;

/// Checks that a sample file equals the defaults of a configuration.
///
/// In the sample, `key = value` is a default, `#key = value` (no space) an example of a key that is unset by default,
/// and `# text` prose. Three conditions hold: the sample loads to exactly the defaults; the sample has every key of the
/// defaults; and with the `#key` lines the sample has no unknown key or wrong type.
///
/// # Errors
/// The first violated condition, as a sentence for the failing test.
pub fn check_sample<C: Section + Default>(sample: &str) -> Result<(), String> {
    let nothing = Environment::empty();
    let loaded = load::<C>(&Source::text("sample", sample), &nothing).map_err(|faults| faults.to_string())?;
    let (read, default) = (effective(&loaded.config), effective(&C::default()));
    if read != default {
        return Err(format!("the sample differs from the defaults.\nsample:\n{read}\ndefaults:\n{default}"));
    }
    let (written, expected) = (keys(sample)?, keys(&default)?);
    if let Some(missing) = expected.difference(&written).next() {
        return Err(format!("the sample has no `{missing}`"));
    }
    let uncommented: String = sample.lines().map(uncomment).collect();
    Unvalidated::<C>::check(&uncommented)
}

/// Reads types without validation: the examples of unset keys may contradict each other, and name missing files.
struct Unvalidated<C>(C);

impl<C: Section> Unvalidated<C> {
    fn check(text: &str) -> Result<(), String> {
        load::<Self>(&Source::text("sample with its #key lines", text), &Environment::empty())
            .map(|_| ())
            .map_err(|faults| faults.to_string())
    }
}

impl<C: serde::Serialize> serde::Serialize for Unvalidated<C> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de, C: serde::Deserialize<'de>> serde::Deserialize<'de> for Unvalidated<C> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        C::deserialize(deserializer).map(Self)
    }
}

impl<C: Section> Section for Unvalidated<C> {}

fn uncomment(line: &str) -> String {
    let key = line.strip_prefix('#').filter(|rest| {
        let name = rest.split(['=', ']']).next().unwrap_or_default().trim_end();
        !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "_.[\"-".contains(c))
    });
    format!("{}\n", key.unwrap_or(line))
}

fn keys(text: &str) -> Result<BTreeSet<String>, String> {
    fn collect(table: &toml::Table, prefix: &str, into: &mut BTreeSet<String>) {
        for (key, value) in table {
            match value {
                toml::Value::Table(inner) => collect(inner, &format!("{prefix}{key}."), into),
                _ => {
                    into.insert(format!("{prefix}{key}"));
                }
            }
        }
    }
    let table: toml::Table = toml::from_str(text).map_err(|error| error.message().to_owned())?;
    let mut paths = BTreeSet::new();
    collect(&table, "", &mut paths);
    Ok(paths)
}
