//! `tests/vectors/protocol.json` and the clients' tables, compared with the output of this test.

mod calls;
mod go;
mod node;
mod python;

use delayq_core::backoff::{MAX_DELAY_MS, MAX_DELAYS};
use delayq_core::envelope::{FLAGS, State};
use delayq_core::fate::REFUSALS;
use delayq_core::id::{Characters, GENERATED_ID, NAMES, NameForm};
use delayq_core::keys::{KEY_FORM, KEY_FORMS, KeyForm};
use delayq_core::limits::{MAX_BYTES_A_CALL, MAX_CONCURRENCY, MAX_IDS_A_CALL, MAX_TIMEOUT_MS};
use delayq_core::message::{MAX_HEADER_BYTES, MAX_PAYLOAD_BYTES};
use delayq_core::policy::{FLOW, Form, MAX_LEASE_MS, MAX_SPAN_MS, Policy, PolicySetting, SETTINGS, Setting};
use delayq_core::reason::MAX_REASON_BYTES;
use delayq_core::script::Verb;
use delayq_core::shard::ShardCount;
use delayq_core::time::{MEANT_SECONDS, UnixMillis};
use delayq_core::url::FORMS;
use delayq_core::verbs::words::{LOST, WORDS};
use delayq_tests::generated::compare;
use serde::Serialize;
use std::path::{Path, PathBuf};

const ABOUT: &str = "The protocol for every language: settings of topics, limits, names, keys, states, words of outcomes, \
                     refusals, URLs, and options of calls and constructors. Written by a test of delayq-core from the tables that the Rust crates use.";

const TEST: &str = "-p delayq-core --test answers -- description";

fn limits() -> Vec<(&'static str, u64)> {
    vec![
        ("ids_a_call", MAX_IDS_A_CALL as u64),
        ("bytes_a_call", MAX_BYTES_A_CALL as u64),
        ("payload_bytes", MAX_PAYLOAD_BYTES as u64),
        ("header_bytes", MAX_HEADER_BYTES as u64),
        ("reason_bytes", MAX_REASON_BYTES as u64),
        ("attempts", u16::MAX.into()),
        ("delay_ms", MAX_DELAY_MS.into()),
        ("delays", MAX_DELAYS as u64),
        ("lease_ms", MAX_LEASE_MS),
        ("span_ms", MAX_SPAN_MS),
        ("time_ms", UnixMillis::MAX.get()),
        ("shards", ShardCount::MAX.into()),
        ("concurrency", MAX_CONCURRENCY as u64),
        ("timeout_ms", MAX_TIMEOUT_MS),
    ]
}

/// Times outside this range are mostly seconds or microseconds mistaken for milliseconds.
fn meant() -> [(&'static str, u64); 2] {
    [("first_meant_ms", MEANT_SECONDS.start * 1000), ("last_meant_ms", MEANT_SECONDS.end * 1000 - 1)]
}

fn accepted() -> Vec<&'static str> {
    let mut accepted: Vec<&str> = Vec::new();
    for one in WORDS.iter().flat_map(|(_, words)| *words) {
        if one.accepted && !accepted.contains(&one.word) {
            accepted.push(one.word);
        }
    }
    accepted
}

fn calling(function: &str) -> Vec<&'static str> {
    let named = |verb: &&Verb| verb.file().contains(&format!("{function}("));
    Verb::ALL.iter().filter(named).map(|verb| verb.name()).collect()
}

/// Scripts that wait for the durability of a topic.
fn writes() -> Vec<&'static str> {
    calling("must_wait")
}

/// Scripts that wait for the durabilities of all topics of the shard.
fn group_writes() -> Vec<&'static str> {
    calling("must_wait_for_all")
}

/// The class of a name's characters as a regular expression; lone surrogates are not text in any class.
fn class(form: &NameForm) -> String {
    match form.characters {
        Characters::Printable => r"[^\u0000-\u001f\u007f-\u009f]".to_owned(),
        Characters::Visible => "[!-~]".to_owned(),
        Characters::Letters(others) => {
            let others: String = others.chars().filter(|&c| c != '-').collect();
            format!("[A-Za-z0-9{others}-]")
        }
    }
}

fn kind(form: Form) -> (&'static str, Option<Number>, Option<Number>, &'static [&'static str]) {
    let whole = |number: u64| Some(Number::Whole(number));
    match form {
        Form::Count { most } => ("count", whole(0), whole(most.into()), &[]),
        Form::Span { least_ms, most_ms } => ("span", whole(least_ms), whole(most_ms), &[]),
        Form::Backoff => ("backoff", None, None, &[]),
        Form::Word(words) => ("word", None, None, words),
        Form::Flag => ("flag", None, None, &[]),
        Form::Rate { least, most } => ("rate", Some(Number::Real(least)), Some(Number::Real(most)), &[]),
    }
}

fn settings() -> impl Iterator<Item = &'static Setting> {
    SETTINGS.iter().chain(&FLOW)
}

fn key(setting: &Setting) -> String {
    setting.name.replace('-', "_")
}

fn stored_default(setting: &Setting) -> Option<String> {
    let known = PolicySetting::ALL.into_iter().find(|known| known.name() == setting.name)?;
    let stored = Policy::default().in_force().stored(known)?;
    (setting.form != Form::Backoff).then(|| String::from_utf8(stored).unwrap())
}

#[derive(Clone, Copy, Serialize)]
#[serde(untagged)]
enum Number {
    Whole(u64),
    Real(f64),
}

impl std::fmt::Display for Number {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Whole(number) => write!(f, "{number}"),
            Self::Real(number) => write!(f, "{number:e}"),
        }
    }
}

#[derive(Serialize)]
struct SettingEntry {
    name: String,
    field: &'static str,
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    unit: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    least: Option<Number>,
    #[serde(skip_serializing_if = "Option::is_none")]
    most: Option<Number>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    words: &'static [&'static str],
    default: &'static str,
    /// The default in the stored form, if that form is text.
    #[serde(skip_serializing_if = "Option::is_none")]
    stored_default: Option<String>,
    means: &'static str,
}

#[derive(Serialize)]
struct WordEntry {
    verb: &'static str,
    word: &'static str,
    accepted: bool,
    means: &'static str,
}

#[derive(Serialize)]
struct NameEntry {
    what: &'static str,
    characters: String,
    max_bytes: usize,
}

#[derive(Serialize)]
struct KeyEntry {
    name: &'static str,
    is_channel: bool,
    means: &'static str,
}

#[derive(Serialize)]
struct StateEntry {
    word: &'static str,
    number: u8,
    finished: bool,
    lost: bool,
}

#[derive(Serialize)]
struct RefusalEntry {
    code: &'static str,
    passes: bool,
}

#[derive(Serialize)]
struct UrlEntry {
    kind: &'static str,
    schemes: Vec<&'static str>,
    tls: Vec<bool>,
    host: &'static str,
    port: u16,
    query: &'static [&'static str],
}

fn protocol() -> String {
    let settings = settings().map(|setting| {
        let (kind, least, most, words) = kind(setting.form);
        let &Setting { field, default, means, .. } = setting;
        let unit = match setting.form {
            Form::Span { .. } | Form::Backoff => Some("ms"),
            Form::Rate { .. } => Some("per second"),
            Form::Count { .. } | Form::Word(_) | Form::Flag => None,
        };
        let stored_default = stored_default(setting);
        SettingEntry {
            name: key(setting),
            field,
            kind,
            unit,
            least,
            most,
            words,
            default,
            stored_default,
            means,
        }
    });
    let words = WORDS.iter().flat_map(|(verb, words)| {
        words.iter().map(|one| WordEntry {
            verb: verb.name(),
            word: one.word,
            accepted: one.accepted,
            means: one.means,
        })
    });
    let names = NAMES.iter().map(|form| NameEntry {
        what: form.what,
        characters: class(form),
        max_bytes: form.max_bytes,
    });
    let keys =
        KEY_FORMS.iter().map(|&KeyForm { name, is_channel, means }| KeyEntry { name, is_channel, means });
    let states = State::ALL.into_iter().map(|state| StateEntry {
        word: state.word(),
        number: state as u8,
        finished: state.is_over(),
        lost: LOST.contains(&state),
    });
    let refusals = REFUSALS.iter().map(|&(code, passes)| RefusalEntry { code, passes });
    let urls = FORMS.iter().map(|form| {
        let (schemes, tls) = form.schemes.into_iter().unzip();
        UrlEntry { kind: form.kind, schemes, tls, host: form.host, port: form.port, query: form.query }
    });
    let parts = [
        format!("\"about\": {}", json(&ABOUT)),
        list("settings", settings),
        table("limits", limits().into_iter().chain(meant())),
        list("names", names),
        format!("\"generated_id\": {}", json(&GENERATED_ID)),
        format!("\"key_form\": {}", json(&KEY_FORM)),
        list("keys", keys),
        list("states", states),
        table("flags", FLAGS),
        list("words", words),
        list("refusals", refusals),
        format!("\"writes\": {}", json(&writes())),
        format!("\"group_writes\": {}", json(&group_writes())),
        list("urls", urls),
        list("options", calls::options()),
        list("odd", calls::ODD),
    ];
    format!("{{\n  {}\n}}\n", parts.join(",\n  "))
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap()
}

fn list<T: Serialize>(name: &str, items: impl IntoIterator<Item = T>) -> String {
    let lines: Vec<String> = items.into_iter().map(|item| format!("    {}", json(&item))).collect();
    format!("\"{name}\": [\n{}\n  ]", lines.join(",\n"))
}

fn table<N: Serialize>(name: &str, items: impl IntoIterator<Item = (&'static str, N)>) -> String {
    let lines: Vec<String> =
        items.into_iter().map(|(key, value)| format!("    \"{key}\": {}", json(&value))).collect();
    format!("\"{name}\": {{\n{}\n  }}", lines.join(",\n"))
}

fn comment(indent: &str, mark: &str, text: &str) -> String {
    let (mut lines, mut line) = (Vec::new(), String::new());
    for word in text.split(' ') {
        if !line.is_empty() && indent.len() + mark.len() + line.len() + word.len() + 2 > 128 {
            lines.push(std::mem::take(&mut line));
        }
        line = if line.is_empty() { word.to_owned() } else { format!("{line} {word}") };
    }
    lines.push(line);
    lines.into_iter().map(|line| format!("{indent}{mark} {line}\n")).collect()
}

/// `max_attempts` as `MaxAttempts`.
fn pascal(name: &str) -> String {
    let words = name.split(['_', '-']).filter(|word| !word.is_empty());
    words.map(|word| word[..1].to_uppercase() + &word[1..]).collect()
}

fn files() -> Vec<(PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    vec![
        (root.join("tests/vectors/protocol.json"), protocol()),
        (root.join("clients/python/delayq/protocol.py"), python::protocol()),
        (root.join("clients/python/delayq/settings.py"), python::settings()),
        (root.join("clients/node/src/protocol.ts"), node::protocol()),
        (root.join("clients/go/protocol.go"), go::protocol()),
    ]
}

#[test]
fn the_files_of_every_language_are_those_of_the_tables() {
    for (path, text) in files() {
        compare(path, &text, TEST);
    }
}

#[test]
fn a_word_is_a_success_of_every_script_or_of_none() {
    let accepted = accepted();
    for one in WORDS.iter().flat_map(|(_, words)| *words) {
        assert_eq!(one.accepted, accepted.contains(&one.word), "{}", one.word);
    }
}

#[test]
fn a_range_in_words_is_the_range_of_the_setting() {
    let span = |ms: u64| match ms {
        86_400_000 => "1day".to_owned(),
        ms if ms % 1000 == 0 => format!("{}s", ms / 1000),
        ms => format!("{ms}ms"),
    };
    for setting in settings() {
        let range = match setting.form {
            Form::Count { most: u32::MAX } => String::new(),
            Form::Count { most } => format!("at most {most}"),
            Form::Span { least_ms: 0, most_ms: MAX_SPAN_MS } => String::new(),
            Form::Span { least_ms, most_ms: MAX_SPAN_MS } => format!("at least {}", span(least_ms)),
            Form::Span { least_ms, most_ms } => format!("{} to {}", span(least_ms), span(most_ms)),
            Form::Backoff => format!("1ms to {}days each", MAX_DELAY_MS / 86_400_000),
            Form::Rate { least, most } => format!("{least:e} to {most:e} in each shard"),
            Form::Word(_) | Form::Flag => String::new(),
        };
        assert_eq!(setting.range, range, "{}", setting.name);
    }
}

#[test]
fn no_odd_value_is_taken_for_a_setting() {
    let (huge, beyond) = ("9".repeat(5_000_000), (1_u64 << 53).to_string());
    let odd = ["", " ", "false", "{}", "NaN", "inf", "-inf", "-1", "0.5", "\u{0}", &huge, &beyond];
    for setting in PolicySetting::ALL {
        for value in odd {
            let mut policy = Policy::default();
            let taken = policy.set(setting, value.as_bytes());
            // An empty text is the codec of topics without a codec.
            let codec = setting == PolicySetting::Codec && value.is_empty();
            assert_eq!(taken.is_ok(), codec, "{} = {:.40}", setting.name(), value);
        }
    }
}
