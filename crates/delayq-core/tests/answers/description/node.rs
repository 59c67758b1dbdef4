//! The tables of the Node client.

use super::calls::Fixed;
use super::python::grouped;
use super::{Number, TEST, class, comment, key, kind, limits, meant, pascal};
use delayq_core::envelope::{FLAGS, KNOWN_FLAGS, State};
use delayq_core::id::{Characters, GENERATED_ID, NAMES};
use delayq_core::keys::KEY_FORMS;
use delayq_core::policy::{Form, Setting};
use delayq_core::url::FORMS;
use delayq_core::verbs::words::{LOST, WORDS};
use std::fmt::Write;

/// The type of a setting that is no scalar.
const BACKOFF: &str = "
/** Delay before the next attempt: one delay; first and longest; or one per attempt. */
export type Backoff = { kind: \"fixed\" | \"exponential\" | \"list\"; delaysMs: readonly number[] };
";

pub(super) fn protocol() -> String {
    let mut text = format!(
        "/**\n * The tables of the protocol: limits, names, states, words, URLs, settings.\n *\n * Written from the tables of delayq-core, never by hand: DELAYQ_UPDATE=1 cargo test {TEST}.\n */\n\n"
    );
    for (name, value) in limits() {
        writeln!(text, "export const MAX_{} = {};", name.to_uppercase(), grouped(value)).unwrap();
    }
    for (option, default) in super::calls::defaults() {
        let default = match default {
            Fixed::Number(number) => grouped(number as u64),
            Fixed::Text(text) => format!("\"{text}\""),
            Fixed::Flag(_) => continue,
        };
        writeln!(text, "export const DEFAULT_{} = {default};", option.to_uppercase()).unwrap();
    }
    text.push_str("/** Times outside are mostly seconds or microseconds mistaken for milliseconds. */\n");
    for (name, value) in meant() {
        writeln!(text, "export const {} = {};", name.to_uppercase(), grouped(value)).unwrap();
    }
    words(&mut text);
    states(&mut text);
    names(&mut text);
    keys(&mut text);
    urls(&mut text);
    settings(&mut text);
    text
}

fn words(text: &mut String) {
    text.push_str(
        "\n/** Words of the outcomes by verb; the README explains each. */\nexport interface Words {\n",
    );
    for (verb, words) in WORDS {
        let words: Vec<_> = words.iter().map(|one| one.word).collect();
        writeln!(text, "  {}: {};", verb.name(), union(&words)).unwrap();
    }
    text.push_str("}\n\n/** The words of success; a message that exists may be lost. */\n");
    writeln!(text, "export const ACCEPTED: readonly string[] = {};", list(&super::accepted())).unwrap();
    text.push_str("\n/** Verbs that wait as the topic requires, and verbs that wait as every topic of the shard requires. */\n");
    writeln!(text, "export const WRITES: readonly string[] = {};", list(&super::writes())).unwrap();
    writeln!(text, "export const GROUP_WRITES: readonly string[] = {};", list(&super::group_writes()))
        .unwrap();
}

fn states(text: &mut String) {
    let words = |states: &[State]| states.iter().map(|state| state.word()).collect::<Vec<_>>();
    writeln!(
        text,
        "\n/** By stored number, from 1 on; the last four are finished. */\nexport const STATES = {} as const;",
        list(&words(&State::ALL))
    )
    .unwrap();
    text.push_str("/** State of a message. */\nexport type State = (typeof STATES)[number];\n");
    writeln!(text, "/** An existing message in one of these states is not delivered. */\nexport const LOST: readonly string[] = {};\n", list(&words(&LOST))).unwrap();
    let flags: Vec<_> = FLAGS.iter().map(|(name, flag)| format!("{}: {flag}", name.to_uppercase())).collect();
    writeln!(text, "/** Flags of an envelope. */\nexport const FLAGS = {{ {} }} as const;", flags.join(", "))
        .unwrap();
    writeln!(text, "/** Every flag above; further flags come from a later version. */\nexport const KNOWN_FLAGS = {KNOWN_FLAGS};").unwrap();
}

fn names(text: &mut String) {
    text.push_str(
        "\n/** For each kind of name the class of the characters, and the maximum number of bytes. */\n",
    );
    text.push_str("export const NAMES = {\n");
    for form in NAMES {
        let class = match form.characters {
            // Lone surrogates, which UTF-8 cannot represent, are characters of a string.
            Characters::Printable => class(&form).replace(']', r"\p{Cs}]"),
            _ => class(&form).replace('/', r"\/"),
        };
        let name = if form.what.contains(' ') { format!("\"{}\"", form.what) } else { form.what.to_owned() };
        writeln!(text, "  {name}: [/^{class}+$/u, {}],", form.max_bytes).unwrap();
    }
    writeln!(text, "}} as const;\nexport const GENERATED_ID = /^{GENERATED_ID}$/i;").unwrap();
}

fn keys(text: &mut String) {
    text.push_str("\n/** Keys and channels of a shard. */\n");
    for form in KEY_FORMS {
        writeln!(text, "export const {} = \"{}\";", form.constant().to_uppercase(), form.fixed()).unwrap();
    }
    text.push_str("/** Returns a key or channel of a shard. */\n");
    text.push_str("export const keyOf = (namespace: string, shard: number, name: string): string => `{${namespace}:${shard}}:${name}`;\n");
}

fn urls(text: &mut String) {
    text.push_str("\n/** Forms of URLs: schemes, a host in words, its default port, the form in words, the parameters of the query. */\n");
    text.push_str("export const URLS = {\n");
    for form in FORMS {
        let schemes = form.schemes.map(|(scheme, _)| scheme);
        writeln!(
            text,
            "  {}: {{ schemes: {}, host: \"{}\", port: {}, shape: \"{}\", query: {} }},",
            form.kind,
            list(&schemes),
            form.host,
            grouped(form.port.into()),
            form.shape,
            list(form.query)
        )
        .unwrap();
    }
    text.push_str("} as const;\n");
}

fn settings(text: &mut String) {
    text.push_str(BACKOFF);
    text.push_str(
        "\n/** Settings of a topic. A missing field has the default. */\nexport interface Policy {\n",
    );
    for setting in super::settings() {
        let doc = comment("   ", "*", &setting.doc());
        if doc.lines().count() == 1 {
            writeln!(text, "  /** {} */", setting.doc()).unwrap();
        } else {
            write!(text, "  /**\n{doc}   */\n").unwrap();
        }
        writeln!(text, "  {}?: {};", field(setting), annotation(setting)).unwrap();
    }
    text.push_str(
        "}\n\n/** The form of a setting: field of `configure`, type, range, and the form of a word. */\n",
    );
    text.push_str("export type SettingForm = { field: string; kind: string; least: number; most: number; word: RegExp };\n\n");
    text.push_str("export const SETTINGS: Record<keyof Policy, SettingForm> = {\n");
    for setting in super::settings() {
        let (kind, least, most, words) = kind(setting.form);
        let number = |number: Option<Number>| match number {
            Some(Number::Whole(number)) => grouped(number),
            Some(real) => real.to_string(),
            None => "0".to_owned(),
        };
        writeln!(
            text,
            "  {}: {{ field: \"{}\", kind: \"{kind}\", least: {}, most: {}, word: /^({})$/ }},",
            field(setting),
            setting.field,
            number(least),
            number(most),
            words.join("|").replace('/', "\\/")
        )
        .unwrap();
    }
    text.push_str("};\n");
}

/// `expire_after` as `expireAfterMs`.
fn field(setting: &Setting) -> String {
    let name = pascal(&key(setting));
    let name = name[..1].to_lowercase() + &name[1..];
    if matches!(setting.form, Form::Span { .. }) { name + "Ms" } else { name }
}

fn annotation(setting: &Setting) -> String {
    match setting.form {
        Form::Count { .. } | Form::Span { .. } | Form::Rate { .. } => "number".to_owned(),
        Form::Backoff => "Backoff".to_owned(),
        Form::Flag => "boolean".to_owned(),
        Form::Word(words) => {
            let one = |word: &&str| match word.split_once('[') {
                Some((word, class)) if class.ends_with("/[smh]") => {
                    format!("`{word}${{number}}/${{\"s\" | \"m\" | \"h\"}}`")
                }
                Some((word, _)) => format!("`{word}${{number}}`"),
                None => format!("\"{word}\""),
            };
            words.iter().map(one).collect::<Vec<_>>().join(" | ")
        }
    }
}

fn union(words: &[&str]) -> String {
    words.iter().map(|word| format!("\"{word}\"")).collect::<Vec<_>>().join(" | ")
}

fn list(words: &[&str]) -> String {
    format!("[{}]", words.iter().map(|word| format!("\"{word}\"")).collect::<Vec<_>>().join(", "))
}
