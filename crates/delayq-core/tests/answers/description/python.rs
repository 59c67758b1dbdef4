//! The tables of the Python client.

use super::calls::Fixed;
use super::{Number, TEST, class, comment, key, kind, limits, meant};
use delayq_core::envelope::{FLAGS, KNOWN_FLAGS, State};
use delayq_core::fate::REFUSALS;
use delayq_core::id::{Characters, GENERATED_ID, NAMES};
use delayq_core::keys::KEY_FORMS;
use delayq_core::policy::{Form, Setting};
use delayq_core::url::FORMS;
use delayq_core::verbs::words::{LOST, WORDS};
use std::fmt::Write;

fn head(about: &str) -> String {
    format!(
        "\"\"\"{about}\n\nWritten from the tables of delayq-core, never by hand: DELAYQ_UPDATE=1 cargo test {TEST}.\n\"\"\"\n\n"
    )
}

pub(super) fn protocol() -> String {
    let mut text =
        head("The tables of the protocol: limits, names, states, words, refusals, URLs, forms of settings.");
    text.push_str("from enum import Enum\nfrom typing import NamedTuple\n\n");
    for (name, value) in limits() {
        writeln!(text, "MAX_{} = {}", name.to_uppercase(), grouped(value)).unwrap();
    }
    for (option, default) in super::calls::defaults() {
        let default = match default {
            Fixed::Number(number) => grouped(number as u64),
            Fixed::Text(text) => format!("\"{text}\""),
            Fixed::Flag(_) => continue,
        };
        writeln!(text, "DEFAULT_{} = {default}", option.to_uppercase()).unwrap();
    }
    text.push_str("#: Ints outside are mostly seconds or microseconds mistaken for milliseconds.\n");
    let [(first, from), (last, to)] = meant();
    writeln!(
        text,
        "{}, {} = {}, {}\n",
        first.to_uppercase(),
        last.to_uppercase(),
        grouped(from),
        grouped(to)
    )
    .unwrap();
    words(&mut text);
    states(&mut text);
    names(&mut text);
    keys(&mut text);
    urls(&mut text);
    forms(&mut text);
    text
}

fn words(text: &mut String) {
    text.push_str("\nclass Word(str, Enum):\n");
    text.push_str("    \"\"\"The result of a call for one message. Each word equals its text.\"\"\"\n\n");
    let mut known = Vec::new();
    for one in WORDS.iter().flat_map(|(_, words)| *words).filter(|one| !one.word.is_empty()) {
        if !known.contains(&one.word) {
            known.push(one.word);
            writeln!(text, "    {} = \"{}\"", constant(one.word), one.word).unwrap();
        }
    }
    text.push_str("    UNANSWERED = \"unanswered\"\n\n    __str__ = str.__str__\n\n\n");
    text.push_str("#: The words of success; a message that exists may be lost.\nACCEPTED = {\n    ");
    text.push_str(&quoted(&super::accepted()).join(", "));
    let passing: Vec<_> = REFUSALS.iter().filter(|(_, passes)| *passes).map(|&(code, _)| code).collect();
    text.push_str(",\n}\n#: Refusals that pass once Redis recovers.\nPASSING = {\n");
    for line in quoted(&passing).chunks(8) {
        writeln!(text, "    {},", line.join(", ")).unwrap();
    }
    text.push_str("}\n");
    let set = |verbs: &[&str]| quoted(verbs).join(", ");
    text.push_str("#: Verbs that wait as the topic requires, and verbs that wait as every topic of the shard requires.\n");
    writeln!(text, "WRITES = {{{}}}", set(&super::writes())).unwrap();
    writeln!(text, "GROUP_WRITES = {{{}}}\n", set(&super::group_writes())).unwrap();
}

fn states(text: &mut String) {
    text.push_str(
        "\nclass State(str, Enum):\n    \"\"\"The state of a message. Each state equals its text.\"\"\"\n\n",
    );
    for state in State::ALL {
        writeln!(text, "    {} = \"{state}\"", constant(state.word())).unwrap();
    }
    text.push_str("    #: States in a conflict: unreadable bytes, or a later format, occupy the id.\n");
    text.push_str("    MALFORMED = \"malformed\"\n    NEWER = \"newer\"\n\n    __str__ = str.__str__\n\n\n");
    let list = |states: &[State]| {
        let names: Vec<_> = states.iter().map(|state| format!("State.{}", constant(state.word()))).collect();
        names.join(", ")
    };
    writeln!(
        text,
        "#: By stored number, from 1 on.\nSTATES = (\n    {},\n    {},\n)",
        list(&State::ALL[..4]),
        list(&State::ALL[4..])
    )
    .unwrap();
    writeln!(text, "#: An existing message in one of these states is not delivered.\nLOST = {}", list(&LOST))
        .unwrap();
    for (name, flag) in FLAGS {
        writeln!(text, "FLAG_{} = {flag}", name.to_uppercase()).unwrap();
    }
    writeln!(
        text,
        "#: Every flag above; further flags come from a later version.\nKNOWN_FLAGS = {KNOWN_FLAGS}"
    )
    .unwrap();
}

fn names(text: &mut String) {
    text.push_str("\n#: For each kind of name the class of the characters, and the maximum number of bytes.\nNAMES = {\n");
    for form in NAMES {
        let class = match form.characters {
            // Lone surrogates, which UTF-8 cannot represent, are characters of a str.
            Characters::Printable => class(&form).replace(']', r"\ud800-\udfff]"),
            _ => class(&form),
        };
        writeln!(text, "    \"{}\": (r\"{class}\", {}),", form.what, form.max_bytes).unwrap();
    }
    writeln!(text, "}}\nGENERATED_ID = r\"(?i){GENERATED_ID}\"\n").unwrap();
}

fn keys(text: &mut String) {
    text.push_str("\n#: Keys and channels of a shard.\n");
    for form in KEY_FORMS {
        writeln!(text, "{} = \"{}\"", form.constant().to_uppercase(), form.fixed()).unwrap();
    }
    text.push_str("\n\ndef key_of(namespace: str, shard: int, name: str) -> str:\n");
    text.push_str("    \"\"\"Returns a key or channel of a shard.\"\"\"\n");
    text.push_str("    return f\"{{{namespace}:{shard}}}:{name}\"\n\n");
}

fn urls(text: &mut String) {
    text.push_str("\nclass UrlForm(NamedTuple):\n    \"\"\"One form of a URL: a host in words, and the parameters of the query.\"\"\"\n\n");
    text.push_str("    schemes: tuple[str, ...]\n    host: str\n    port: int\n    shape: str\n    query: tuple[str, ...]\n\n\nURLS = {\n");
    for form in FORMS {
        let schemes = form.schemes.map(|(scheme, _)| scheme);
        writeln!(
            text,
            "    \"{}\": UrlForm(\n        {}, \"{}\", {},\n        \"{}\", {},\n    ),",
            form.kind,
            tuple(&schemes),
            form.host,
            form.port,
            form.shape,
            tuple(form.query)
        )
        .unwrap();
    }
    text.push_str("}\n\n");
}

fn forms(text: &mut String) {
    text.push_str("\nclass SettingForm(NamedTuple):\n    \"\"\"The form of a setting: field of `configure`, type, range, and words as regular expressions.\"\"\"\n\n");
    text.push_str("    field: str\n    kind: str\n    least: float = 0\n    most: float = 0\n    words: tuple[str, ...] = ()\n\n\n");
    text.push_str("SETTINGS = {\n");
    for setting in super::settings() {
        let (kind, least, most, words) = kind(setting.form);
        let mut parts = vec![format!("\"{}\"", setting.field), format!("\"{kind}\"")];
        if let (Some(least), Some(most)) = (least, most) {
            parts.extend([number(least), number(most)]);
        }
        if !words.is_empty() {
            parts.push(format!("words={}", tuple(words)));
        }
        writeln!(text, "    \"{}\": SettingForm({}),", key(setting), parts.join(", ")).unwrap();
    }
    text.push_str("}\n");
}

pub(super) fn settings() -> String {
    let mut text = head("The settings of a topic, as fields of a policy.");
    text.push_str(
        "from dataclasses import dataclass\nfrom datetime import timedelta\nfrom typing import Literal\n\n",
    );
    text.push_str("from .message import Backoff\n\nSetting = Literal[\n");
    let keys: Vec<_> = super::settings().map(|setting| format!("\"{}\",", key(setting))).collect();
    for line in keys.chunks(6) {
        writeln!(text, "    {}", line.join(" ")).unwrap();
    }
    text.push_str("]\n\n\n@dataclass(frozen=True)\nclass Settings:\n    \"\"\"Settings of a topic. None means the default; in a change, no change.\"\"\"\n\n");
    for setting in super::settings() {
        text.push_str(&comment("    ", "#:", &setting.doc()));
        writeln!(text, "    {}: {} | None = None", key(setting), annotation(setting)).unwrap();
    }
    text
}

fn annotation(setting: &Setting) -> String {
    match setting.form {
        Form::Count { .. } => "int".to_owned(),
        Form::Span { .. } => "timedelta".to_owned(),
        Form::Backoff => "Backoff".to_owned(),
        Form::Word(words) if words.iter().all(|word| !word.contains('[')) => {
            let words: Vec<_> = words.iter().map(|word| format!("\"{word}\"")).collect();
            format!("Literal[{}]", words.join(", "))
        }
        Form::Word(_) => "str".to_owned(),
        Form::Flag => "bool".to_owned(),
        Form::Rate { .. } => "float".to_owned(),
    }
}

fn quoted(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| format!("\"{word}\"")).collect()
}

fn constant(word: &str) -> String {
    word.to_uppercase().replace('-', "_")
}

fn number(number: Number) -> String {
    match number {
        Number::Whole(number) => grouped(number),
        Number::Real(_) => number.to_string(),
    }
}

fn tuple(items: &[&str]) -> String {
    match quoted(items).as_slice() {
        [one] => format!("({one},)"),
        many => format!("({})", many.join(", ")),
    }
}

pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let parts: Vec<_> =
        digits.as_bytes().rchunks(3).rev().map(|part| String::from_utf8_lossy(part)).collect();
    if digits.len() > 4 { parts.join("_") } else { digits }
}
