//! The schema of the chart's values names delayq's settings, and bounds them, as the sample file does.

use super::reference::{Setting, root, settings};
use delayq_tests::generated::compare;
use std::collections::BTreeMap;
use std::fs;

const TEST: &str = "-p delayq-tests --test integration -- chart::";

/// Tables whose keys are names, and lists of tables.
const FREE: [&str; 10] = [
    "gateway.oidc.groups",
    "gateway.shown",
    "intake",
    "lmstfy.accounts",
    "lmstfy.pools",
    "redis.nodes",
    "routes",
    "sinks",
    "traces.attributes",
    "traces.headers",
];

fn is_free(key: &str) -> bool {
    FREE.iter()
        .any(|free| key.strip_prefix(free).is_some_and(|rest| rest.is_empty() || rest.starts_with('.')))
}

/// The setting that a variable names, without the file or variable of a secret.
fn setting_of(variable: &str) -> String {
    let path = variable.trim_start_matches("DELAYQ__").to_lowercase().replace("__", ".");
    path.trim_end_matches(".file").trim_end_matches(".env").to_owned()
}

fn variable(path: &str) -> String {
    format!("DELAYQ__{}", path.to_uppercase().replace('.', "__"))
}

/// A pattern for the variables of each section. The file or variable that holds a secret is a part of its name.
fn patterns(settings: &[Setting]) -> Vec<String> {
    let mut sections = BTreeMap::<&str, Vec<String>>::new();
    for setting in settings.iter().filter(|setting| !is_free(&format!("{}.{}", setting.section, setting.key)))
    {
        sections.entry(&setting.section).or_default().push(setting.key.to_uppercase());
    }
    let known = sections
        .into_iter()
        .map(|(section, keys)| format!("^{}__({})(__(ENV|FILE))?$", variable(section), keys.join("|")));
    FREE.iter().map(|free| format!("^{}(__|$)", variable(free))).chain(known).collect()
}

/// A line of the schema as it should be: a description that begins with a setting, `[section] key: `, has the text of the
/// sample, and the variables are the patterns.
fn line(line: &str, settings: &[Setting], patterns: &[String]) -> String {
    let (indent, text) = line.split_at(line.len() - line.trim_start().len());
    if text.starts_with("\"anyOf\": [{ \"pattern\": \"^DELAYQ__") {
        let patterns: Vec<_> =
            patterns.iter().map(|pattern| format!("{{ \"pattern\": \"{pattern}\" }}")).collect();
        return format!("{indent}\"anyOf\": [{}]", patterns.join(", "));
    }
    let named = text.strip_prefix("\"description\": \"[").and_then(|rest| rest.split_once("] "));
    let Some((section, rest)) = named else { return line.to_owned() };
    let (key, rest) = rest.split_once(": ").expect("a description of a setting is `[section] key: text`");
    let setting = settings.iter().find(|setting| setting.section == section && setting.key == key);
    let meaning =
        serde_json::to_string(&setting.unwrap_or_else(|| panic!("no setting [{section}] {key}")).meaning);
    let meaning = meaning.expect("text is JSON");
    let end = if rest.ends_with(',') { "," } else { "" };
    format!("{indent}\"description\": \"[{section}] {key}: {}{end}", &meaning[1..])
}

/// The largest value that the sample names: of a time, in seconds ("100ms to 10m"), or of a list ("up to 4 times").
fn most(setting: &Setting, keyword: &str) -> u64 {
    let number = |text: &str| text.parse::<u64>().ok();
    let of_list =
        || setting.meaning.split_once("up to ").and_then(|(_, rest)| number(rest.split_once(' ')?.0));
    let of_time = || {
        let (_, rest) = setting.meaning.split_once("ms to ")?;
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
        let unit =
            [('s', 1), ('m', 60), ('h', 3600)].into_iter().find(|(unit, _)| rest[..end].ends_with(*unit));
        unit.and_then(|(_, secs)| Some(number(&rest[..end - 1])? * secs))
    };
    let found = if keyword == "maxItems" { of_list() } else { of_time() };
    found.unwrap_or_else(|| panic!("the sample gives {} no {keyword}: {}", setting.key, setting.meaning))
}

/// The lines with the bounds of the setting that the object's description names.
fn bounded(text: &str, settings: &[Setting]) -> String {
    let (mut bounded, mut of) = (String::new(), None::<(usize, &Setting)>);
    for line in text.lines() {
        let indent = line.len() - line.trim_start().len();
        of = of.filter(|(start, _)| indent >= *start);
        let named = line.split_once("\"description\": \"[").and_then(|(_, rest)| rest.split_once("] "));
        if let Some((section, rest)) = named {
            let is_named =
                |of: &&Setting| of.section == section && rest.starts_with(&format!("{}: ", of.key));
            of = settings.iter().find(is_named).map(|setting| (indent, setting));
        }
        let keyword =
            ["maximum", "maxItems"].into_iter().find(|word| line.contains(&format!("\"{word}\": ")));
        let Some(((_, setting), keyword)) = of.zip(keyword) else {
            bounded += &format!("{line}\n");
            continue;
        };
        let (start, old) = line.split_once(": ").expect("the keyword has a value");
        let comma = if old.ends_with(',') { "," } else { "" };
        bounded += &format!("{start}: {}{comma}\n", most(setting, keyword));
    }
    bounded
}

#[test]
fn the_schema_of_the_chart_says_what_the_sample_says_of_each_setting_and_knows_every_variable() {
    let settings = settings();
    let patterns = patterns(&settings);
    assert!(patterns.len() > 15, "{patterns:?}");
    let path = root().join("deploy/kubernetes/delayq/values.schema.json");
    let schema = fs::read_to_string(&path).unwrap();
    let text: String = schema.lines().map(|text| format!("{}\n", line(text, &settings, &patterns))).collect();
    let text = bounded(&text, &settings);
    assert!(text.contains("\"maximum\": 600"), "{text}");
    assert!(text.contains("[gateway] insecure: ") && text.contains("^DELAYQ__REDIS__(URL"), "{text}");
    compare(path, &text, TEST);
}

#[test]
fn every_variable_that_the_chart_sets_is_a_setting() {
    let settings: Vec<String> =
        settings().iter().map(|setting| format!("{}.{}", setting.section, setting.key)).collect();
    let mut set = Vec::new();
    for file in fs::read_dir(root().join("deploy/kubernetes/delayq/templates")).unwrap() {
        let Ok(text) = fs::read_to_string(file.unwrap().path()) else { continue };
        let names = text.match_indices("DELAYQ__").map(|(at, _)| &text[at..]);
        let end = |rest: &str| rest.find(|c: char| !c.is_ascii_uppercase() && c != '_').unwrap_or(rest.len());
        set.extend(names.map(|rest| rest[..end(rest)].to_owned()));
    }
    assert!(set.len() > 20, "{set:?}");
    let unknown: Vec<_> = set.iter().filter(|name| !settings.contains(&setting_of(name))).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}
