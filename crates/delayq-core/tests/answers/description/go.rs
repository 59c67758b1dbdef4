//! The tables of the Go client, as gofmt formats them.

use super::calls::Fixed;
use super::{Number, TEST, class, comment, kind, limits, meant, pascal};
use delayq_core::envelope::{FLAGS, KNOWN_FLAGS, State};
use delayq_core::id::{Characters, GENERATED_ID, NAMES};
use delayq_core::keys::KEY_FORMS;
use delayq_core::policy::{Form, Setting};
use delayq_core::url::FORMS;
use delayq_core::verbs::words::{LOST, WORDS};
use std::fmt::Write;

pub(super) fn protocol() -> String {
    let mut text = format!(
        "// The tables of the protocol: limits, names, states, words, URLs, settings.\n\
         // Code generated from the tables of delayq-core by `DELAYQ_UPDATE=1 cargo test {TEST}`. DO NOT EDIT.\n\n\
         package delayq\n\nimport (\n\t\"regexp\"\n\t\"strconv\"\n\t\"time\"\n)\n\n"
    );
    let constants = limits()
        .into_iter()
        .map(|(name, value)| (format!("max{}", pascal(name).replace("Ids", "IDs")), value));
    let defaults = super::calls::defaults().filter_map(|(option, default)| {
        let default = match default {
            Fixed::Number(number) => number.to_string(),
            Fixed::Text(text) => format!("\"{text}\""),
            Fixed::Flag(_) => return None,
        };
        Some((format!("default{}", pascal(option)), default))
    });
    let meant = meant().map(|(name, value)| (lower(&pascal(name)), value));
    let whole = constants.chain(meant).map(|(name, value)| (name, value.to_string()));
    block(&mut text, whole.chain(defaults));
    words(&mut text);
    states(&mut text);
    names(&mut text);
    keys(&mut text);
    urls(&mut text);
    settings(&mut text);
    text
}

fn block(text: &mut String, constants: impl Iterator<Item = (String, String)>) {
    let constants: Vec<_> = constants.collect();
    let widest = constants.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    text.push_str("const (\n");
    for (name, value) in constants {
        writeln!(text, "\t{name:widest$} = {value}").unwrap();
    }
    text.push_str(")\n");
}

fn words(text: &mut String) {
    text.push_str("\n// Words of outcomes and states of messages; the README lists the words of each verb. Unanswered is the word of a missing\n");
    text.push_str("// answer: unless the error is a ScriptError, the call may have been carried out.\n");
    let mut known: Vec<&str> = Vec::new();
    let words = WORDS.iter().flat_map(|(_, words)| words.iter().map(|one| one.word));
    for word in words.chain(State::ALL.into_iter().map(State::word)).chain(["unanswered"]) {
        if !known.contains(&word) {
            known.push(word);
        }
    }
    block(text, known.into_iter().map(|word| (pascal(word), format!("\"{word}\""))));
    let accepted: Vec<_> = super::accepted().into_iter().map(pascal).collect();
    text.push_str("\n// accepted has the words of success; a message that exists may be lost.\n");
    writeln!(text, "var accepted = []Word{{{}}}", accepted.join(", ")).unwrap();
    let set =
        |verbs: &[&str]| verbs.iter().map(|verb| format!("\"{verb}\": true")).collect::<Vec<_>>().join(", ");
    text.push_str(
        "\n// writes wait as the topic requires, groupWrites as every topic of the shard requires.\nvar (\n",
    );
    writeln!(text, "\twrites      = map[string]bool{{{}}}", set(&super::writes())).unwrap();
    writeln!(text, "\tgroupWrites = map[string]bool{{{}}}\n)", set(&super::group_writes())).unwrap();
}

fn states(text: &mut String) {
    let names =
        |states: &[State]| states.iter().map(|state| pascal(state.word())).collect::<Vec<_>>().join(", ");
    writeln!(
        text,
        "\n// states has the states by stored number, from 1 on.\nvar states = []State{{{}}}",
        names(&State::ALL)
    )
    .unwrap();
    writeln!(
        text,
        "\n// lost has the states of existing messages that are not delivered.\nvar lost = []State{{{}}}\n",
        names(&LOST)
    )
    .unwrap();
    text.push_str("// Flags of an envelope.\n");
    block(text, FLAGS.iter().map(|(name, flag)| (format!("flag{}", pascal(name)), flag.to_string())));
    writeln!(text, "\n// knownFlags has every flag above; further flags come from a later version.\nconst knownFlags = {KNOWN_FLAGS}").unwrap();
}

fn names(text: &mut String) {
    text.push_str("\n// nameForm has the characters of a kind of name, and the maximum number of bytes.\ntype nameForm struct {\n\tcharacters *regexp.Regexp\n\tmaxBytes   int\n}\n\n");
    text.push_str("var nameForms = map[string]nameForm{\n");
    let widest = NAMES.iter().map(|form| form.what.len()).max().unwrap_or(0) + 3;
    for form in NAMES {
        let class = match form.characters {
            Characters::Printable => r"\P{Cc}".to_owned(),
            _ => class(&form),
        };
        let name = format!("\"{}\":", form.what);
        writeln!(text, "\t{name:widest$} {{regexp.MustCompile(`^{class}+$`), {}}},", form.max_bytes).unwrap();
    }
    writeln!(text, "}}\n\nvar generatedID = regexp.MustCompile(`(?i)^{GENERATED_ID}$`)").unwrap();
}

fn keys(text: &mut String) {
    text.push_str("\n// Keys and channels of a shard.\n");
    block(
        text,
        KEY_FORMS.iter().map(|form| (format!("{}Key", form.constant()), format!("\"{}\"", form.fixed()))),
    );
    text.push_str("\n// keyOf returns a key or channel of a shard.\n");
    text.push_str("func keyOf(namespace string, shard int, name string) string {\n");
    text.push_str("\treturn \"{\" + namespace + \":\" + strconv.Itoa(shard) + \"}:\" + name\n}\n");
}

fn urls(text: &mut String) {
    text.push_str("\n// urlForm is one form of a URL: a host in words, its default port, the form in words, the parameters of the query.\n");
    text.push_str("type urlForm struct {\n\tschemes []string\n\twhat    string\n\tport    int\n\tshape   string\n\tquery   []string\n}\n\n");
    text.push_str("var urlForms = map[string]urlForm{\n");
    let widest = FORMS.iter().map(|form| form.kind.len()).max().unwrap_or(0) + 3;
    for form in FORMS {
        let list = |words: &[&str]| match words {
            [] => "nil".to_owned(),
            words => format!(
                "[]string{{{}}}",
                words.iter().map(|word| format!("\"{word}\"")).collect::<Vec<_>>().join(", ")
            ),
        };
        let name = format!("\"{}\":", form.kind);
        let schemes = form.schemes.map(|(scheme, _)| scheme);
        writeln!(
            text,
            "\t{name:widest$} {{{}, \"{}\", {}, \"{}\", {}}},",
            list(&schemes),
            form.host,
            form.port,
            form.shape,
            list(form.query)
        )
        .unwrap();
    }
    text.push_str("}\n");
}

fn settings(text: &mut String) {
    text.push_str("\n// Policy has the settings of a topic. A nil field has the default or, in a patch, does not change.\ntype Policy struct {\n");
    for setting in super::settings() {
        text.push_str(&comment("\t", "//", &format!("{}: {}", pascal(setting.name), setting.doc())));
        writeln!(text, "\t{} *{}", pascal(setting.name), annotation(setting)).unwrap();
    }
    text.push_str(
        "}\n\n// Setting names a field of a Policy.\ntype Setting string\n\n// Fields of a Policy.\n",
    );
    block(
        text,
        super::settings().map(|setting| {
            (format!("Setting{}", pascal(setting.name)), format!("Setting(\"{}\")", setting.field))
        }),
    );
    text.push_str("\n// settingForm describes a setting: name, type, range, and the form of a word.\ntype settingForm struct {\n");
    text.push_str("\tsetting     Setting\n\tname, kind  string\n\tleast, most float64\n\tword        *regexp.Regexp\n}\n\n");
    text.push_str("var settingForms = []settingForm{\n");
    for setting in super::settings() {
        let (kind, least, most, words) = kind(setting.form);
        let number =
            |number: Option<Number>| number.map_or_else(|| "0".to_owned(), |number| number.to_string());
        let word = match words {
            [] => "nil".to_owned(),
            words => format!("regexp.MustCompile(`^({})$`)", words.join("|")),
        };
        let name = pascal(setting.name);
        writeln!(
            text,
            "\t{{Setting{name}, \"{name}\", \"{kind}\", {}, {}, {word}}},",
            number(least),
            number(most)
        )
        .unwrap();
    }
    text.push_str("}\n");
}

const fn annotation(setting: &Setting) -> &'static str {
    match setting.form {
        Form::Count { most: 65_535 } => "uint16",
        Form::Count { .. } => "uint32",
        Form::Span { .. } => "time.Duration",
        Form::Backoff => "Backoff",
        Form::Word(_) => "string",
        Form::Flag => "bool",
        Form::Rate { .. } => "float64",
    }
}

fn lower(name: &str) -> String {
    name[..1].to_lowercase() + &name[1..]
}
