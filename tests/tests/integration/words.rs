//! One word per thing: rejected synonyms appear nowhere (docs/glossary.md has the words in use).

use std::fs;
use std::path::Path;

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
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut found = Vec::new();
    search(root, &mut found);
    assert!(found.is_empty(), "{} times a word that lost:\n{}", found.len(), found.join("\n"));
}
