//! The scripts' headers against the Rust bindings.

use delayq_core::Verb;
use std::collections::BTreeSet;

/// The words of each script that answers with words, and the binding that reads them.
const WORDS: [(Verb, &[&str], &str); 13] = [
    (
        Verb::Put,
        &["stored", "ready", "exists", "conflict", "leased", "stale", "moved", "refused"],
        include_str!("../../src/verbs/put.rs"),
    ),
    (Verb::Cancel, &["cancelled", "leased", "dead", "finished", "unknown", "failed"], CANCEL),
    (
        Verb::Reschedule,
        &["delayed", "ready", "changed", "leased", "dead", "finished", "unknown", "refused", "failed"],
        CANCEL,
    ),
    (Verb::ShiftGroup, &["more", "done", "busy"], CANCEL),
    (Verb::Ack, &["delivered", "expired", "failed"], SETTLE),
    (Verb::Extend, &["expired", "cancelled", "failed"], SETTLE),
    (
        Verb::Release,
        &["delayed", "ready", "buried", "cancelled", "expired-message", "expired", "failed"],
        SETTLE,
    ),
    (Verb::Bury, &["buried", "expired", "failed"], SETTLE),
    (Verb::Claim, &["claimed", "renewed", "owned"], ADMIN),
    (Verb::Hold, &["held", "free", "fenced"], ADMIN),
    (Verb::Purge, &["more", "done"], ADMIN),
    (Verb::Init, &["created", "exists", "differs"], include_str!("../../src/verbs/growth.rs")),
    (Verb::Grow, &["created", "raised", "exists", "ahead", "differs"], include_str!("../../src/follow.rs")),
];

const CANCEL: &str = include_str!("../../src/verbs/cancel.rs");
const SETTLE: &str = include_str!("../../src/verbs/settle.rs");
const ADMIN: &str = include_str!("../../src/verbs/admin.rs");

/// The words that a header says its script answers: those that stand at an alternative's beginning.
fn words_of(verb: Verb) -> BTreeSet<String> {
    let file = verb.file();
    let start = file.find("-- RETURNS  ").expect("a header says what it returns");
    let end = file.find("-- COST     ").expect("a header says what it costs");
    let block = file[start + 12..end].replace("\n--", " ");
    // What stands in brackets explains, and may nest.
    let (mut text, mut depth) = (String::new(), 0);
    for c in block.chars() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            c if depth == 0 => text.push(c),
            _ => {}
        }
    }
    let alternatives = text.split(';').next().unwrap_or_default().split('|');
    let word = |alternative: &str| {
        let answer = alternative.rsplit(": ").next().unwrap_or_default();
        let first = answer.split(", ").next().unwrap_or_default().trim();
        let word = first.split([' ', '<']).next().unwrap_or_default();
        (!word.is_empty() && word.chars().all(|c| c.is_ascii_lowercase() || c == '-'))
            .then(|| word.to_owned())
    };
    alternatives.filter_map(word).collect()
}

#[test]
fn the_words_of_every_header_are_those_that_its_binding_knows() {
    for (verb, known, binding) in WORDS {
        let known: BTreeSet<String> = known.iter().map(ToString::to_string).collect();
        assert_eq!(words_of(verb), known, "RETURNS of {}", verb.name());
        for word in &known {
            assert!(
                binding.contains(&format!("\"{word}\"")),
                "the binding of {} does not know {word}",
                verb.name()
            );
        }
        // Every word that may come first is somewhere in the script, or in what it includes.
        let scripts = delayq_core::Scripts::published();
        let source = &scripts.get(verb).source;
        for word in &known {
            assert!(source.contains(&format!("'{word}")), "{} never answers {word}", verb.name());
        }
    }
}
