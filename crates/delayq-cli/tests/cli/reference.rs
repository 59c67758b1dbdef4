//! The pages that are made from the program: `docs/commands.md` from `--help`, `docs/errors.md` from the tables of codes, and
//! the settings in `docs/cli.schema.json`. Command lines in all other documents are known to the program.

use clap::error::ErrorKind;
use clap::{Arg, Command, CommandFactory as _, Parser as _};
use delayq::admin::PolicySetting;
use delayq_cli::commands::{Cli, TASKS};
use delayq_cli::help::VARIABLES;
use delayq_service::Exit;
use delayq_service::codes::Code;
use delayq_tests::generated::{compare, with_rows};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/commands.md");

const TEST: &str = "-p delayq-cli --test cli -- reference::";

const HEADER: &str = "\
<!-- DELAYQ_UPDATE=1 cargo test -p delayq-cli --test cli -- reference:: writes this page again, whatever is in it. -->

# Commands

Every command of `delayq` with its arguments, from the definitions that `delayq --help` and the manual pages are made of.
[The command line](cli.md) says how they work together: deployments, times, ids, JSON, backups, monitoring.
";

fn escaped(text: &str) -> String {
    text.replace('<', "&lt;").replace('|', "\\|")
}

fn row(text: &mut String, cells: &[String]) {
    writeln!(text, "| {} |", cells.join(" | ")).unwrap();
}

/// An argument in the form `-i`, `--id <ID>`.
fn name(arg: &Arg) -> String {
    let mut names = Vec::new();
    names.extend(arg.get_short().map(|short| format!("`-{short}`")));
    if let Some(long) = arg.get_long() {
        let value = arg.get_value_names().filter(|_| arg.get_action().takes_values()).unwrap_or_default();
        let values: String = value.iter().map(|value| format!(" {value}")).collect();
        names.push(format!("`--{long}{values}`"));
    } else {
        names.push(format!("`{arg}`"));
    }
    names.join(", ")
}

fn default(arg: &Arg) -> String {
    let values = if arg.get_action().takes_values() { arg.get_default_values() } else { &[] };
    let values: Vec<_> = values.iter().map(|value| format!("`{}`", value.to_str().unwrap())).collect();
    values.join(", ")
}

fn meaning(arg: &Arg) -> String {
    let help = arg.get_long_help().or(arg.get_help()).map(ToString::to_string).unwrap_or_default();
    let mut text = escaped(&help.split_whitespace().collect::<Vec<_>>().join(" "));
    let values = arg.get_possible_values();
    if arg.get_action().takes_values() && !values.is_empty() {
        let values: Vec<String> = values
            .iter()
            .filter(|value| !value.is_hide_set())
            .map(|value| match value.get_help() {
                Some(help) => format!("`{}` ({})", value.get_name(), escaped(&help.to_string())),
                None => format!("`{}`", value.get_name()),
            })
            .collect();
        write!(text, ". Values: {}", values.join(", ")).unwrap();
    }
    text
}

fn arguments<'a>(text: &mut String, args: impl Iterator<Item = &'a Arg>) {
    let args: Vec<&Arg> = args.filter(|arg| !arg.is_hide_set() && arg.get_id() != "help").collect();
    if !args.is_empty() {
        text.push_str("\n| argument | default | |\n| --- | --- | --- |\n");
    }
    for arg in args {
        row(text, &[name(arg), default(arg), meaning(arg)]);
    }
}

/// A paragraph with lines of its own keeps the lines.
fn explanation(text: &mut String, command: &Command) {
    let long = command.get_long_about().map(ToString::to_string).unwrap_or_default();
    for paragraph in long.trim().split("\n\n").skip(1) {
        match paragraph.contains('\n') {
            true => write!(text, "\n```text\n{paragraph}\n```\n"),
            false => write!(text, "\n{}\n", escaped(paragraph)),
        }
        .unwrap();
    }
}

fn section(text: &mut String, command: &Command, level: usize) {
    let path = command.get_bin_name().unwrap();
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    write!(text, "\n{} `{path}`\n\n{}.\n", "#".repeat(level), escaped(&about)).unwrap();
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage:").split_whitespace().collect::<Vec<_>>().join(" ");
    write!(text, "\n    {usage}\n").unwrap();
    explanation(text, command);
    arguments(text, command.get_arguments().filter(|arg| !arg.is_global_set()));
    for below in command.get_subcommands().filter(|below| below.get_name() != "help") {
        section(text, below, level + 1);
    }
}

fn table<'a>(text: &mut String, title: &str, head: &str, rows: impl Iterator<Item = (String, &'a str)>) {
    write!(text, "\n## {title}\n\n| {head} | |\n| --- | --- |\n").unwrap();
    for (name, meaning) in rows {
        row(text, &[format!("`{name}`"), escaped(meaning)]);
    }
}

fn page() -> String {
    let (mut text, mut whole) = (HEADER.to_owned(), Cli::command());
    whole.build();
    for (task, names) in TASKS {
        write!(text, "\n## {task}\n").unwrap();
        for name in *names {
            section(&mut text, whole.find_subcommand(name).unwrap(), 3);
        }
    }
    text.push_str("\n## Options of every command\n");
    arguments(&mut text, whole.get_arguments());
    let variables = VARIABLES.iter().map(|(name, meaning)| ((*name).to_owned(), *meaning));
    table(&mut text, "Environment", "variable", variables);
    let exits = Exit::ALL.iter().map(|exit| (exit.code().to_string(), exit.meaning()));
    table(&mut text, "Exit codes", "code", exits);
    text.push_str(
        "\nThe services end with the same codes, and `delayq check` with those of [Nagios](cli.md#monitoring).\n\
         [Error codes](errors.md) says which error ends with which.\n",
    );
    text
}

#[test]
fn the_page_of_commands_is_what_the_program_accepts() {
    compare(PAGE, &page(), TEST);
}

/// A row per code: name, meaning, cause, and the first remedy.
fn codes() -> Vec<String> {
    let tables = [
        delayq_service::codes::TABLE,
        delayq_service::codes::redis::TABLE,
        delayq_timer::codes::TABLE,
        delayq_forwarder::codes::TABLE,
        delayq_compensator::codes::TABLE,
        delayq_gateway::codes::TABLE,
        delayq_cli::failure::TABLE,
    ];
    let row = |code: &&Code| {
        let Code { id, title, cause, tries, exit } = code;
        format!("| `{id}` | {title} | {cause} | {} | {} |", tries[0].replace('|', "\\|"), exit.code())
    };
    let mut rows: Vec<String> = tables.into_iter().flatten().map(row).collect();
    rows.sort();
    rows
}

#[test]
fn the_page_of_error_codes_has_every_code_as_the_programs_print_it() {
    let path = Path::new(PAGE).with_file_name("errors.md");
    let page = std::fs::read_to_string(&path).unwrap();
    compare(path, &with_rows(&page, |_| Some(codes())), TEST);
}

/// The schema of the output, whose keys are in order, with the settings of topics as the table describes them. A key
/// with several types has several uses and a description of its own.
fn schema(schema: &str) -> String {
    let (before, rest) = schema.split_once("\"properties\": {\n        \"").unwrap();
    let (keys, after) = rest.split_once("\n        }\n").unwrap();
    let keys = keys.split("\n        },\n        \"").map(|key| key.split_once("\": {\n").unwrap());
    let mut keys: BTreeMap<String, String> =
        keys.map(|(name, form)| (name.to_owned(), form.to_owned())).collect();
    for setting in PolicySetting::ALL.map(PolicySetting::entry) {
        let form = format!(
            "          \"type\": \"string\",\n          \"description\": {}",
            Value::from(setting.doc())
        );
        let entry = keys.entry(setting.name.replace('-', "_")).or_insert_with(|| form.clone());
        if entry.contains("\"type\": \"string\"") {
            *entry = form;
        }
    }
    let keys: Vec<String> = keys.iter().map(|(name, form)| format!("{name}\": {{\n{form}")).collect();
    format!(
        "{before}\"properties\": {{\n        \"{}\n        }}\n{after}",
        keys.join("\n        },\n        \"")
    )
}

#[test]
fn the_schema_of_the_output_has_every_setting_of_a_topic() {
    let path = Path::new(PAGE).with_file_name("cli.schema.json");
    let text = std::fs::read_to_string(&path).unwrap();
    compare(path, &schema(&text), TEST);
}

fn variables_read(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            variables_read(&path, found);
        } else {
            let text = std::fs::read_to_string(&path).unwrap();
            for call in ["env::var(\"", "env::var_os(\""] {
                let names = text.split(call).skip(1).filter_map(|rest| rest.split('"').next());
                found.extend(names.map(str::to_owned));
            }
        }
    }
}

#[test]
fn every_variable_that_is_read_by_name_is_in_the_help() {
    let (crates, mut read) = (Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/..")), BTreeSet::new());
    variables_read(&crates.join("delayq-cli/src"), &mut read);
    variables_read(&crates.join("delayq-service/src"), &mut read);
    let known: BTreeSet<String> = VARIABLES.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert!(!read.is_empty());
    assert!(read.is_subset(&known), "{:?}", read.difference(&known));
}

/// Leaves this page out, and the history of changes, which names former commands.
fn pages_below(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy();
        let skipped = ["target", "node_modules", "CHANGELOG.md", "commands.md"].contains(&&*name)
            || name.starts_with('.');
        if path.is_dir() && !path.is_symlink() && !skipped {
            pages_below(&path, found);
        } else if name.ends_with(".md") && !skipped {
            found.push(path);
        }
    }
}

/// The words of a command line up to a pipe, a redirection, a comment or the command of `work`.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), String::new(), None);
    for c in line.chars().chain([' ']) {
        match (quote, c) {
            (Some(open), c) if open == c => quote = None,
            (None, '\'' | '"') => quote = Some(c),
            (None, ' ') if word.is_empty() => {}
            (None, ' ') => {
                if ["|", ">", "&", "&&", "#", "--", "\\", ";"].contains(&&*word) {
                    break;
                }
                // Optional words stand in brackets.
                words.push(std::mem::take(&mut word).replace(['[', ']'], ""));
            }
            (_, c) => word.push(c),
        }
    }
    words
}

/// Code that begins with the word `delayq`, in blocks and between backticks.
fn command_lines(page: &str) -> Vec<&str> {
    let mut fenced = false;
    let code = page.lines().flat_map(|line| {
        fenced ^= line.starts_with("```");
        let whole = fenced || line.starts_with("    ");
        if whole { vec![line.trim()] } else { line.split('`').skip(1).step_by(2).collect() }
    });
    // An import of Go begins with the same word.
    code.filter(|code| code.starts_with("delayq ") && !code.starts_with("delayq \"") && !code.contains('…'))
        .collect()
}

/// Values may be placeholders, and arguments left out.
fn is_known(line: &str) -> bool {
    let unknown = [ErrorKind::UnknownArgument, ErrorKind::InvalidSubcommand];
    let words = words(line).into_iter().filter(|word| word != "COMMAND");
    Cli::try_parse_from(words).err().is_none_or(|error| !unknown.contains(&error.kind()))
}

#[test]
fn every_command_line_in_the_documents_is_one_that_the_program_knows() {
    let (mut pages, mut seen, mut wrong) = (Vec::new(), 0, Vec::new());
    pages_below(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")), &mut pages);
    for page in pages {
        let text = std::fs::read_to_string(&page).unwrap();
        for line in command_lines(&text) {
            seen += 1;
            if !is_known(line) {
                wrong.push(format!("{}: {line}", page.display()));
            }
        }
    }
    assert!(seen > 100, "only {seen} command lines were found");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_command_line_with_an_unknown_word_is_found() {
    assert!(is_known("delayq put orders '{\"order\": 17}' --in 30m | cat --number"));
    assert!(is_known("delayq work orders -- ./run --fast") && is_known("delayq dead list"));
    assert!(!is_known("delayq put orders --after 30m") && !is_known("delayq deliver"));
    assert_eq!(
        command_lines("a `delayq put` b `x`\n```sh\ndelayq up\n```\n    delayq man\n"),
        ["delayq put", "delayq up", "delayq man"]
    );
}
