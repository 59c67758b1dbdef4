//! The files of the page: all embedded, small together, lit-html unchanged, no text outside of the table of texts.

use super::FILES;
use crate::actions::BURY;
use crate::table::ROUTES;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use delayq_look::{EXTRAS, causes};
use sha2::{Digest as _, Sha512};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// The SHA-512 of lit-html 3.3.3's `lit-html.js` in the npm registry.
const LIT_HTML: &str =
    "Ps1YVHCHHjY4/EJelORTqhvUxLDIj+1JtJ+WdGNmaLQkxGRiS8j18AjeI026mh3hcT3oF4D46pzRyx43ODiG5g==";
const MAX_GZIP: usize = 60_000;

fn text(name: &str) -> &'static str {
    &FILES.iter().find(|file| file.name == name).unwrap().text
}

#[test]
fn every_file_of_the_folder_is_served() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("page");
    let names = |folder: &Path, before: &str| -> Vec<String> {
        let entries = std::fs::read_dir(folder).unwrap().map(Result::unwrap);
        let files = entries.filter(|entry| entry.path().is_file());
        files.map(|entry| format!("{before}{}", entry.file_name().display())).collect()
    };
    let mut there: BTreeSet<String> = names(&folder, "").into_iter().collect();
    there.extend(names(&folder.join("vendor"), "vendor/"));
    assert!(there.remove("vendor/LICENSE"), "the licence of the foreign file");
    let served: BTreeSet<String> = FILES.iter().map(|file| file.name.to_owned()).collect();
    assert_eq!(served, there);
}

#[test]
fn the_foreign_file_is_the_published_one() {
    assert_eq!(STANDARD.encode(Sha512::digest(text("vendor/lit-html.js"))), LIT_HTML);
}

#[test]
fn all_files_together_are_small() {
    let mut bytes = 0;
    for file in FILES.iter() {
        let mut gzip =
            Command::new("gzip").arg("-9c").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut input = gzip.stdin.take().unwrap();
        let writing = std::thread::spawn(move || input.write_all(file.text.as_bytes()).unwrap());
        bytes += gzip.wait_with_output().unwrap().stdout.len();
        writing.join().unwrap();
    }
    assert!(bytes <= MAX_GZIP, "{bytes} bytes");
    assert!(bytes > 10_000, "{bytes} bytes: was everything compressed?");
}

#[test]
fn comments_are_not_sent_and_all_code_is() {
    for file in FILES.iter().filter(|file| file.name.ends_with(".js") && !file.name.starts_with("vendor/")) {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("page").join(file.name);
        let written = std::fs::read_to_string(path).unwrap();
        let is_comment =
            |line: &&str| ["//", "/**", "* ", "*/"].iter().any(|sign| line.trim().starts_with(sign));
        let left_out = written.lines().filter(is_comment).count();
        assert!(left_out > 0 && !file.text.lines().any(|line| is_comment(&line)), "{}", file.name);
        assert_eq!(file.text.lines().count() + left_out, written.lines().count(), "{}", file.name);
        assert!(
            !markup(&written).lines().any(|line| is_comment(&line)),
            "{}: text like a comment",
            file.name
        );
    }
}

#[test]
fn nothing_is_inline_and_nothing_comes_from_elsewhere() {
    for file in FILES.iter().filter(|file| !file.name.starts_with("vendor/")) {
        for never in
            ["style=", "onclick=", "<style", "javascript:", "innerHTML", "eval(", "unsafeHTML", "https://"]
        {
            assert!(!file.text.contains(never), "{}: {never}", file.name);
        }
    }
}

/// The English and the Chinese text of each key in texts.js: a line each, `key: ['text', '文本'],`.
fn entries() -> BTreeMap<&'static str, (&'static str, &'static str)> {
    let rest = text("texts.js").split("export const TEXTS = {\n").nth(1).unwrap();
    let lines = rest.split("\n};").next().unwrap().lines().map(str::trim);
    let lines = lines.filter(|line| !line.starts_with("//"));
    let texts = |texts: &'static str| texts.strip_prefix("['")?.strip_suffix("'],")?.split_once("', '");
    let entry = |line: &'static str| {
        line.split_once(": ")
            .and_then(|(key, both)| Some((key, texts(both)?)))
            .unwrap_or_else(|| panic!("{line}"))
    };
    let all: Vec<_> = lines.map(entry).collect();
    let by_key: BTreeMap<_, _> = all.iter().copied().collect();
    assert_eq!(by_key.len(), all.len(), "a key is there twice");
    by_key
}

fn placeholders(text: &str) -> BTreeSet<&str> {
    text.split('{').skip(1).map(|rest| rest.split('}').next().unwrap()).collect()
}

#[test]
fn both_languages_have_the_same_texts_with_the_same_placeholders() {
    for (key, (english, chinese)) in entries() {
        assert_eq!(placeholders(english), placeholders(chinese), "{key}");
        assert!(!english.is_empty() && !chinese.is_empty(), "{key} is empty");
    }
}

#[test]
fn every_text_is_used_and_every_used_text_exists() {
    let known: BTreeSet<&str> = entries().into_keys().collect();
    let code: String = FILES
        .iter()
        .filter(|file| file.name.ends_with(".js") && file.name != "texts.js")
        .map(|file| file.text.as_str())
        .collect();
    for (at, _) in code.match_indices("t('") {
        if code[..at].ends_with(|before: char| before.is_alphanumeric() || before == '_') {
            continue;
        }
        let key = code[at + 3..].split('\'').next().unwrap();
        assert!(known.contains(key), "texts.js lacks {key}");
    }
    // Composed keys: `state_${state}`.
    let stems =
        code.match_indices('`').filter_map(|(at, _)| code[at + 1..].split_once("${").map(|(stem, _)| stem));
    let is_stem =
        |stem: &&str| stem.len() > 2 && stem.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    let stems: Vec<&str> = stems.filter(is_stem).collect();
    for key in known {
        let is_used = code.contains(&format!("'{key}'")) || stems.iter().any(|stem| key.starts_with(stem));
        assert!(is_used, "{key} is not used");
    }
}

#[test]
fn every_action_in_the_log_has_words() {
    let known = entries();
    let names = ROUTES.iter().filter(|route| route.acts()).map(|route| route.original().name);
    for name in names.chain([BURY]) {
        assert!(known.contains_key(format!("act_{name}").as_str()), "texts.js lacks act_{name}");
    }
}

#[test]
fn every_reason_of_a_refused_login_has_a_sentence() {
    let known = entries();
    let reasons = include_str!("../oidc/refusal.rs");
    let words: Vec<&str> =
        reasons.split(" => \"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    assert!(words.len() > 15, "{words:?}");
    for reason in words {
        assert!(known.contains_key(format!("refused_{reason}").as_str()), "texts.js lacks refused_{reason}");
    }
}

#[test]
fn every_finding_of_the_doctor_has_words_with_its_values_in_both_languages() {
    let known = entries();
    let named = |key: &str, values: &[&str]| {
        let (english, _) = known.get(key).unwrap_or_else(|| panic!("texts.js lacks {key}"));
        let unknown: Vec<&str> =
            placeholders(english).into_iter().filter(|name| !values.contains(name)).collect();
        assert_eq!(unknown, [""; 0], "{key}: the finding has no such values");
    };
    for (name, cause) in causes() {
        for kind in ["found", "advice"] {
            named(&format!("{kind}_{}", name.to_lowercase()), cause.values);
        }
    }
    EXTRAS.iter().for_each(|name| named(&format!("also_{name}"), &[name]));
}

/// Without the expressions inside.
fn markup(code: &str) -> String {
    let (mut depth, mut inside, mut markup) = (Vec::new(), false, String::new());
    let mut rest = code.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '`' => {
                inside = !inside;
                markup.push('\n');
            }
            '$' if inside && rest.peek() == Some(&'{') => {
                rest.next();
                depth.push(1);
                inside = false;
            }
            '{' if !inside => depth.last_mut().map_or((), |depth| *depth += 1),
            '}' if !inside && depth.last() == Some(&1) => {
                depth.pop();
                inside = true;
            }
            '}' if !inside => depth.last_mut().map_or((), |depth| *depth -= 1),
            c if inside => markup.push(c),
            _ => {}
        }
    }
    markup
}

#[test]
fn no_text_is_in_the_code() {
    for file in FILES
        .iter()
        .filter(|file| file.name.ends_with(".js") && !["texts.js", "vendor/lit-html.js"].contains(&file.name))
    {
        let markup = markup(&file.text);
        for after in markup.split('>').skip(1) {
            let shown = after.split(['<', '\n']).next().unwrap();
            assert!(
                !shown.chars().any(char::is_alphabetic),
                "{}: {shown:?} belongs into texts.js",
                file.name
            );
        }
        for attribute in ["aria-label=\"", "title=\"", "placeholder=\""] {
            assert!(!markup.contains(attribute), "{}: {attribute}", file.name);
        }
    }
    assert_eq!(markup("a`<b>${f(`<i>${{x: 1}}</i>`)} there</b>`").matches("there").count(), 1);
}
