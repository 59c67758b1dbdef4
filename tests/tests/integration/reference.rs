//! The reference pages match the code: keys of the configuration come from the sample file, which other tests compare
//! with the code's fields and defaults; error codes come from the code.

use std::fs;
use std::path::{Path, PathBuf};

const NO_SECTION: &str = "";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// The table rows of a page that begin with a name in backticks.
fn rows(page: &str) -> Vec<String> {
    let text = fs::read_to_string(root().join("docs").join(page)).unwrap();
    text.lines().filter(|line| line.starts_with("| `")).map(str::to_owned).collect()
}

fn hold(page: &str, expected: &[String]) {
    let shown = rows(page);
    assert!(shown == expected, "docs/{page} has to have these rows, in this order:\n{}", expected.join("\n"));
}

/// `key = value` of a line that is set, or commented out as an example of an unset key.
fn setting(line: &str) -> Option<(&str, &str, bool)> {
    let (text, is_set) = line.strip_prefix('#').map_or((line, true), |rest| (rest, false));
    let (key, value) = text.split_once(" = ")?;
    let is_key = !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || "_.\"-".contains(c));
    is_key.then_some((key, value, is_set))
}

/// A row per key of the sample file: name, default or example, and comment.
fn keys(sample: &str) -> Vec<String> {
    let (mut rows, mut section, mut comment) = (Vec::new(), NO_SECTION.to_owned(), Vec::<&str>::new());
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
            let value = value.trim().replace('|', "\\|");
            let default = if is_set { format!("`{value}`") } else { format!("unset, e.g. `{value}`") };
            let said = [said.as_str(), note.trim()].join(" ");
            rows.push(format!("| `{section}.{key}` | {default} | {} |", said.trim().replace('|', "\\|")));
        } else if let Some(text) = line.strip_prefix("# ") {
            comment.push(text);
        } else if line.is_empty() && !comment.is_empty() {
            comment.clear();
        }
    }
    rows
}

#[test]
fn the_page_of_the_configuration_has_every_key_of_the_sample_as_it_is_there() {
    let sample = fs::read_to_string(root().join("config/delayq.toml")).unwrap();
    hold("configuration.md", &keys(&sample));
}

fn text_of(constant: &str, field: &str) -> String {
    let rest =
        constant.split_once(&format!("{field}: ")).unwrap_or_else(|| panic!("no {field} in {constant}")).1;
    let (_, rest) = rest.split_once('"').unwrap();
    let mut text = String::new();
    let mut chars = rest.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' => break,
            '\\' if chars.peek() == Some(&'\n') => {
                while chars.peek().is_some_and(|c| c.is_whitespace()) {
                    chars.next();
                }
            }
            '\\' => text.extend(chars.next()),
            c => text.push(c),
        }
    }
    text
}

/// A row per code: name, meaning, cause, and the first remedy.
fn codes() -> Vec<String> {
    let mut rows = Vec::new();
    for file in [
        "service/src/codes",
        "service/src/codes/redis",
        "timer/src/codes",
        "forwarder/src/codes",
        "compensator/src/codes",
        "gateway/src/codes",
        "cli/src/failure",
    ] {
        let path = root().join(format!("crates/delayq-{file}.rs"));
        let text = fs::read_to_string(&path).unwrap();
        for constant in text.split(": Code = Code {").skip(1) {
            let constant = constant.split("\n};").next().unwrap();
            let exit = constant.split_once("exit: Exit::").unwrap().1.split(',').next().unwrap();
            let tries = text_of(constant, "tries");
            let [id, title, cause] = ["id", "title", "cause"].map(|field| text_of(constant, field));
            let tries = tries.replace('|', "\\|");
            rows.push(
                format!("| `{id}` | {title} | {cause} | {tries} | {} |", exit_code(exit)).replace("  ", " "),
            );
        }
    }
    rows.sort();
    rows
}

fn exit_code(name: &str) -> u8 {
    let text = fs::read_to_string(root().join("crates/delayq-service/src/exit.rs")).unwrap();
    let found = text.split_once(&format!("Self::{name} => ")).unwrap_or_else(|| panic!("no exit {name}")).1;
    found.split(',').next().unwrap().parse().unwrap()
}

#[test]
fn the_page_of_error_codes_has_every_code_as_the_programs_print_it() {
    let codes = codes();
    assert!(codes.len() > 20, "only {} codes were found", codes.len());
    hold("errors.md", &codes);
}
