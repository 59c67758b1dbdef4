//! A part of a configuration, or the whole.

use super::faults::Faults;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;

/// A part of a configuration, or the whole.
///
/// # Contract
/// Deserialising accepts a value of the right type; [`validate`](Self::validate) checks ranges and contradictions,
/// which types cannot express. Validation reports every fault and corrects nothing. Serialising prints no secret.
pub trait Section: Serialize + DeserializeOwned {
    /// Reports every fault, including inner sections.
    fn validate(&self, _at: &mut Faults) {}
}

impl<S: Section> Section for Vec<S> {
    fn validate(&self, at: &mut Faults) {
        for (index, item) in self.iter().enumerate() {
            at.item("", index, item);
        }
    }
}

impl<S: Section> Section for BTreeMap<String, S> {
    fn validate(&self, at: &mut Faults) {
        for (name, section) in self {
            at.section(name, section);
        }
    }
}

// === impl Faults ===

impl Faults {
    /// Validates an inner section under its key.
    pub fn section<S: Section>(&mut self, key: &str, section: &S) {
        self.within(key, |faults| section.validate(faults));
    }

    /// Validates a list element; indices start at 0.
    pub fn item<S: Section>(&mut self, key: &str, index: usize, item: &S) {
        self.within(&format!("{key}[{index}]"), |faults| item.validate(faults));
    }
}
