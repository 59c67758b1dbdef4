//! One word per thing, and one thing per word: rejected synonyms appear nowhere (docs/glossary.md has the words in use), no
//! term of the glossary is explained twice, and the name of a type has few owners.

use crate::structure::rust_files;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// A rejected word, and its replacement.
const LOST: [(&str, &str); 13] = [
    ("anew", "again, from scratch"),
    ("Anew", "Again, From scratch"),
    ("whoever", "the noun: caller, worker, owner, client"),
    ("Whoever", "the noun: caller, worker, owner, client"),
    ("that is none", "that is missing, that is invalid"),
    ("that are none", "that are missing, that are invalid"),
    ("look_every", "poll_interval"),
    ("most_bytes", "max_bytes"),
    ("most_payload_bytes", "max_payload_bytes"),
    ("Means", "what it holds"),
    ("Knowledge", "what it knows"),
    ("Learned", "what was found"),
    ("Ground", "what stands there"),
];

/// Maximum number of files under `crates/` that define a type of the same name.
const MOST_OWNERS: usize = 2;

/// The names of types with more owners, and the meaning that all owners share.
const SHARED: [(&str, &str); 8] = [
    ("Action", "the subcommands of a command"),
    ("Config", "the configuration of a program"),
    ("Deps", "what a service is built with"),
    ("Named", "the names of a message"),
    ("Next", "what a loop does next"),
    ("OfOutcome", "the label `outcome` of metrics"),
    ("Said", "the answer of one of several servers"),
    ("Seen", "what a look has found"),
];

const SKIPPED: [&str; 9] =
    ["target", "node_modules", ".git", "CHANGELOG.md", "words.rs", "vectors", "dist", "build", ".venv"];

const READ: [&str; 9] = ["rs", "lua", "md", "toml", "py", "ts", "go", "sh", "yaml"];

fn search(path: &Path, found: &mut Vec<String>) {
    let name = path.file_name().unwrap().to_string_lossy();
    if SKIPPED.contains(&&*name) || path.is_symlink() {
    } else if path.is_dir() {
        fs::read_dir(path).unwrap().for_each(|entry| search(&entry.unwrap().path(), found));
    } else if path.extension().is_some_and(|extension| READ.iter().any(|read| extension == *read)) {
        for (number, line) in fs::read_to_string(path).unwrap().lines().enumerate() {
            for (lost, used) in LOST.iter().filter(|(lost, _)| holds_word(line, lost)) {
                found.push(format!("{}:{}: `{lost}`, say {used}", path.display(), number + 1));
            }
        }
    }
}

fn holds_word(line: &str, word: &str) -> bool {
    let part_of_word = |c: char| c.is_alphanumeric();
    line.match_indices(word).any(|(at, _)| {
        !line[..at].ends_with(part_of_word) && !line[at + word.len()..].starts_with(part_of_word)
    })
}

#[test]
fn the_words_that_lost_are_nowhere() {
    let mut found = Vec::new();
    search(root(), &mut found);
    assert!(found.is_empty(), "{} times a word that lost:\n{}", found.len(), found.join("\n"));
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// The name of the type that a line defines.
fn defined(line: &str) -> Option<&str> {
    let (before, after) =
        ["struct ", "enum ", "trait ", "type "].iter().find_map(|keyword| line.split_once(keyword))?;
    let visibility = before.trim();
    let is_definition = visibility.is_empty() || visibility == "pub" || visibility.starts_with("pub(");
    // An associated type belongs to the trait.
    let is_associated = line.starts_with(' ') && line.trim_start().starts_with("type ");
    let name = after.split(|c: char| !c.is_alphanumeric() && c != '_').next()?;
    (is_definition && !is_associated && !name.is_empty()).then_some(name)
}

/// The files outside tests that define each name of a type.
fn owners() -> BTreeMap<String, BTreeSet<PathBuf>> {
    let mut files = Vec::new();
    for folder in fs::read_dir(root().join("crates")).unwrap() {
        rust_files(&folder.unwrap().path().join("src"), &mut files);
    }
    let mut owners: BTreeMap<String, BTreeSet<PathBuf>> = BTreeMap::new();
    for file in files.into_iter().filter(|file| !file.ends_with("tests.rs")) {
        let text = fs::read_to_string(&file).unwrap();
        let code = text.split("#[cfg(test)]\nmod tests").next().unwrap();
        for name in code.lines().filter_map(defined) {
            owners.entry(name.to_owned()).or_default().insert(file.clone());
        }
    }
    owners
}

#[test]
fn the_name_of_a_type_has_few_owners() {
    let owners = owners();
    assert!(owners.len() > 500, "{} types were found", owners.len());
    let shared = |name: &str| SHARED.iter().any(|(shared, _)| *shared == name);
    let crowded: BTreeMap<_, _> = owners.iter().filter(|(_, files)| files.len() > MOST_OWNERS).collect();
    let wrong: Vec<_> = crowded.iter().filter(|(name, _)| !shared(name)).collect();
    assert!(wrong.is_empty(), "name each type by what it is in its module: {wrong:#?}");
    for (name, meaning) in SHARED {
        assert!(crowded.contains_key(&name.to_owned()), "`{name}` ({meaning}) has few owners by now");
    }
}

#[test]
fn definitions_of_types_are_found() {
    for (line, name) in [
        ("struct Lane {", Some("Lane")),
        ("pub(super) enum Settle<'s> {", Some("Settle")),
        ("        pub struct Config {", Some("Config")),
        ("pub trait Source: Send {", Some("Source")),
        ("type Answer = Result<Response, Problem>;", Some("Answer")),
        ("    type Key = Origin;", None),
        ("    what: &'static struct_of", None),
        ("let kind = \"struct Lane\";", None),
        ("/// The type of", None),
    ] {
        assert_eq!(defined(line), name, "{line}");
    }
}

#[test]
fn a_term_of_the_glossary_is_explained_once() {
    let glossary = fs::read_to_string(root().join("docs/glossary.md")).unwrap();
    let rows = glossary.lines().filter_map(|line| line.strip_prefix("| ")?.split_once(" | "));
    let terms: Vec<&str> = rows.flat_map(|(terms, _)| terms.split(", ")).collect();
    let twice = |term: &&&str| terms.iter().filter(|other| other == term).count() > 1;
    let twice: BTreeSet<_> =
        terms.iter().filter(twice).filter(|term| !["word", "---"].contains(term)).collect();
    assert!(terms.len() > 80, "{} terms were found", terms.len());
    assert!(twice.is_empty(), "explained twice: {twice:?}");
}
