//! The page of the configuration is made from the sample file, which other tests compare with the code's fields, defaults
//! and ranges.

use delayq_tests::generated::{compare, with_rows};
use std::fs;
use std::path::{Path, PathBuf};

const NO_SECTION: &str = "";

pub(super) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// A key of the sample file.
pub(super) struct Setting {
    pub(super) section: String,
    pub(super) key: String,
    value: String,
    /// Whether the value is the default, and not an example of an unset key.
    is_set: bool,
    pub(super) meaning: String,
}

impl Setting {
    fn row(&self) -> String {
        let Self { section, key, value, is_set, meaning } = self;
        let value = value.replace('|', "\\|");
        let default = if *is_set { format!("`{value}`") } else { format!("unset, e.g. `{value}`") };
        format!("| `{section}.{key}` | {default} | {} |", meaning.replace('|', "\\|"))
    }
}

/// `key = value` of a line that is set, or commented out as an example of an unset key.
fn setting(line: &str) -> Option<(&str, &str, bool)> {
    let (text, is_set) = line.strip_prefix('#').map_or((line, true), |rest| (rest, false));
    let (key, value) = text.split_once(" = ")?;
    let is_key = !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || "_.\"-".contains(c));
    is_key.then_some((key, value, is_set))
}

/// Every key of the sample file, with its comment.
pub(super) fn settings() -> Vec<Setting> {
    let sample = fs::read_to_string(root().join("config/delayq.toml")).unwrap();
    let (mut settings, mut section, mut comment) = (Vec::new(), NO_SECTION.to_owned(), Vec::<&str>::new());
    let mut said = String::new();
    for line in sample.lines() {
        let header = line.strip_prefix('#').unwrap_or(line);
        if let Some(name) = header.strip_prefix('[') {
            section = name.trim_matches(['[', ']']).to_owned();
            said = comment.join(" ");
            comment.clear();
        } else if let Some((key, value, is_set)) = setting(line) {
            // Keys that share a comment stand on consecutive lines.
            if !comment.is_empty() {
                said = comment.join(" ");
                comment.clear();
            }
            let (value, note) = value.split_once("  #").unwrap_or((value, ""));
            let (key, value) = (key.to_owned(), value.trim().to_owned());
            let meaning = [said.as_str(), note.trim()].join(" ").trim().to_owned();
            settings.push(Setting { section: section.clone(), key, value, is_set, meaning });
        } else if let Some(text) = line.strip_prefix("# ") {
            comment.push(text);
        } else if line.is_empty() && !comment.is_empty() {
            comment.clear();
        }
    }
    settings
}

#[test]
fn the_page_of_the_configuration_has_every_key_of_the_sample_as_it_is_there() {
    let read = |file: &str| fs::read_to_string(root().join(file)).unwrap();
    let rows: Vec<String> = settings().iter().map(Setting::row).collect();
    let page = with_rows(&read("docs/configuration.md"), |_| Some(rows.clone()));
    compare(root().join("docs/configuration.md"), &page, "-p delayq-tests --test integration -- reference::");
}
