//! The answer words in the scripts' headers, compared with the Rust bindings and the scripts themselves.

use delayq::protocol::Verb;
use std::collections::BTreeSet;

macro_rules! binding {
    ($name:literal) => {
        include_str!(concat!("../../../delayq-core/src/verbs/", $name, ".rs"))
    };
}

const WORDS: [(Verb, &[&str], &str); 24] = [
    (
        Verb::Put,
        &[
            "changed",
            "unknown",
            "stored",
            "ready",
            "again",
            "exists",
            "conflict",
            "leased",
            "stale",
            "moved",
            "cancelled",
            "expired",
            "refused",
        ],
        binding!("put"),
    ),
    (Verb::Cancel, &["cancelled", "leased", "dead", "finished", "unknown", "failed"], binding!("cancel")),
    (
        Verb::Reschedule,
        &["delayed", "ready", "changed", "leased", "dead", "finished", "unknown", "refused", "failed"],
        binding!("reschedule"),
    ),
    (Verb::ShiftGroup, &["more", "done", "busy"], binding!("group")),
    (Verb::Pump, &["pumped", "more", "held", "ahead", "fenced", "not"], binding!("pump")),
    (Verb::Ack, &["delivered", "expired", "failed"], binding!("settle")),
    (Verb::Extend, &["expired", "cancelled", "failed"], binding!("settle")),
    (
        Verb::Release,
        &["delayed", "ready", "buried", "cancelled", "expired-message", "expired", "failed"],
        binding!("settle"),
    ),
    (Verb::Bury, &["buried", "expired", "failed"], binding!("settle")),
    (
        Verb::Finish,
        &["cancelled", "delivered", "purged", "kept", "finished", "unknown", "failed"],
        binding!("finish"),
    ),
    (
        Verb::Operate,
        &[
            "cancelled",
            "buried",
            "ready",
            "delayed",
            "leased",
            "changed",
            "kept",
            "dead",
            "finished",
            "unknown",
            "refused",
            "failed",
        ],
        binding!("operate"),
    ),
    (Verb::Swap, &["swapped", "kept"], binding!("swap")),
    (Verb::Replay, &["ready", "delayed"], binding!("replay")),
    (Verb::Claim, &["claimed", "renewed", "owned", "free"], binding!("claim")),
    (Verb::Hold, &["held", "free", "fenced"], binding!("hold")),
    (Verb::Promote, &["more", "done"], binding!("cursor")),
    (Verb::Purge, &["more", "done"], binding!("cursor")),
    (Verb::Forget, &["unknown", "kept", "empty", "forgotten"], binding!("forget")),
    (Verb::Repair, &["mended", "sound", "failed"], binding!("repair")),
    (Verb::Recount, &["counted", "more", "changed", "crowded"], binding!("recount")),
    (Verb::Init, &["created", "exists", "differs"], binding!("deployment")),
    (Verb::Grow, &["created", "raised", "exists", "ahead", "differs"], binding!("deployment")),
    (Verb::Move, &["moved", "exists", "differs"], binding!("deployment")),
    (Verb::Discard, &["discarded", "kept"], binding!("deployment")),
];

/// Scripts that answer numbers, names and envelopes; no word tells their answers apart.
const WORDLESS: [Verb; 23] = [
    Verb::Audit,
    Verb::AuditIndex,
    Verb::CancelGroup,
    Verb::Configure,
    Verb::Count,
    Verb::Describe,
    Verb::Dictionary,
    Verb::ForgetQuiet,
    Verb::Histogram,
    Verb::History,
    Verb::Identify,
    Verb::Layout,
    Verb::List,
    Verb::ListGroup,
    Verb::Meter,
    Verb::Overview,
    Verb::PauseGroup,
    Verb::PausedGroups,
    Verb::Peek,
    Verb::Probe,
    Verb::Reserve,
    Verb::Settled,
    Verb::Survey,
];

/// Leaves out explanations in brackets, which may nest.
pub(crate) fn part_of(verb: Verb, from: &str, to: &str) -> String {
    let file = verb.file();
    let start = file.find(from).unwrap_or_else(|| panic!("{} has no {from}", verb.name())) + from.len();
    let end = file.find(to).unwrap_or_else(|| panic!("{} has no {to}", verb.name()));
    let (mut text, mut depth) = (String::new(), 0);
    for c in file[start..end].chars() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            c if depth == 0 => text.push(c),
            _ => {}
        }
    }
    text
}

fn words_of(verb: Verb) -> BTreeSet<String> {
    let text = part_of(verb, "-- RETURNS  ", "-- COST     ").replace("\n--", " ");
    let listed = text.split_once("  word  ").map_or(text.as_str(), |(_, words)| words);
    let alternatives = listed.split(';').next().unwrap_or_default().split('|');
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
fn every_script_answers_words_that_are_compared_or_no_words() {
    let compared = WORDS.iter().map(|(verb, ..)| verb).chain(&WORDLESS);
    let names: Vec<_> = compared.map(|verb| verb.name()).collect();
    let all: BTreeSet<_> = Verb::ALL.iter().map(|verb| verb.name()).collect();
    assert_eq!((names.iter().copied().collect(), names.len()), (all, Verb::ALL.len()));
    for verb in WORDLESS {
        let text = part_of(verb, "-- RETURNS  ", "-- COST     ");
        let before_lists = text.split("kind  ").next().unwrap_or_default();
        assert!(!before_lists.contains(" | "), "{} answers words: {text}", verb.name());
    }
}

#[test]
fn the_words_of_every_header_are_those_that_its_binding_knows() {
    for (verb, known, binding) in WORDS {
        let known: BTreeSet<String> = known.iter().map(ToString::to_string).collect();
        let words = words_of(verb);
        let right = if verb == Verb::Replay { words.is_superset(&known) } else { words == known };
        assert!(right, "RETURNS of {}: {words:?}, its binding knows {known:?}", verb.name());
        for word in &known {
            assert!(
                binding.contains(&format!("\"{word}\"")),
                "the binding of {} does not know {word}",
                verb.name()
            );
        }
        let scripts = delayq::protocol::Scripts::published();
        let source = &scripts.get(verb).source;
        for word in &words {
            assert!(source.contains(&format!("'{word}")), "{} never answers {word}", verb.name());
        }
    }
}
