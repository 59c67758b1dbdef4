//! The shell blocks of the README, the quick start and the guides run as printed, in order, in an empty folder.
//!
//! A `text` block after a block lists lines of its output; `…` stands for anything. A block below the comment `<!-- in
//! the background -->` keeps running in its own terminal. A page without such a block finds a deployment made by
//! `delayq up`, and `DELAYQ_CONFIG` set. Blocks of `toml` are valid configurations.

use delayq_tests::binary::Binary;
use delayq_tests::deadline::{LONG, SHORT, wait_until};
use delayq_tests::folder::Folder;
use delayq_tests::process::{Process, Stream};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The blocks that do not run: page, beginning of the block, and reason.
const NOT_RUN: [(&str, &str, &str); 9] = [
    ("README.md", "cargo install ", "installs what this test was built with"),
    ("README.md", "make run ", "builds the workspace; bench/tests/programs/rehearsal.rs runs what it runs"),
    ("docs/quickstart.md", "cargo install ", "installs what this test was built with"),
    ("docs/guides/intake.md", "# one record, by kcat", "needs a broker; the compensator's tests run it"),
    ("docs/guides/intake.md", "rabbitmqadmin declare ", "needs a broker; the compensator's tests run it"),
    ("docs/guides/intake.md", "rabbitmqctl set_permissions ", "likewise"),
    ("docs/guides/intake.md", "# the message group keeps ", "needs Amazon's command line and an account"),
    (
        "docs/guides/kafka.md",
        "delayq --config delayq.toml config check ",
        "needs a broker; guides.rs runs it",
    ),
    ("docs/guides/outbox.md", "delayq outbox init", "needs a database; guides.rs runs it"),
];

/// Pages with blocks that another test runs.
const RUN_ELSEWHERE: [&str; 3] =
    ["docs/guides/http.md", "docs/guides/http-clients.md", "docs/guides/lmstfy.md"];

/// The languages of blocks; a block without a language would escape the checks.
const LANGUAGES: [&str; 13] =
    ["sh", "text", "toml", "sql", "python", "rust,no_run", "json", "js", "ts", "go", "php", "ruby", "csharp"];

/// Separates the outputs of consecutive blocks.
const BORDER: &str = "=== the next block ===";

#[derive(Debug, PartialEq, Eq)]
struct Block {
    language: String,
    text: String,
    background: bool,
    prints: String,
}

fn blocks(page: &str) -> Vec<Block> {
    let (mut blocks, mut background) = (Vec::<Block>::new(), false);
    let (mut open, mut after_shell) = (false, false);
    for line in page.lines() {
        if open {
            open = line != "```";
            if open {
                blocks.last_mut().unwrap().text += &format!("{line}\n");
            }
        } else if let Some(language) = line.strip_prefix("```") {
            let block = Block {
                language: language.to_owned(),
                text: String::new(),
                background,
                prints: String::new(),
            };
            blocks.push(block);
            (open, background) = (true, false);
        } else if !line.is_empty() {
            background = line == "<!-- in the background -->";
            after_shell = false;
        }
        if open && line == "```sh" {
            after_shell = true;
        } else if !open && line == "```" && after_shell && blocks.last().unwrap().language == "text" {
            let printed = blocks.pop().unwrap().text;
            blocks.last_mut().unwrap().prints = printed;
        }
    }
    blocks
}

fn indented(page: &str) -> Vec<&str> {
    let (mut open, mut before, mut found) = (false, "", Vec::new());
    for line in page.lines() {
        if line.starts_with("```") {
            open = !open;
        } else if !open && line.starts_with("    ") && before.is_empty() {
            found.push(line);
        }
        before = line;
    }
    found
}

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

pub(crate) fn read(page: &str) -> String {
    fs::read_to_string(root().join(page)).unwrap_or_else(|error| panic!("{page}: {error}"))
}

fn guides() -> Vec<String> {
    let folder = fs::read_dir(root().join("docs/guides")).unwrap();
    let names = folder.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut guides: Vec<String> = names.map(|name| format!("docs/guides/{name}")).collect();
    guides.sort();
    guides
}

pub(crate) fn block(page: &str, begins: &str) -> String {
    let found = blocks(&read(page)).into_iter().find(|block| block.text.starts_with(begins));
    found.unwrap_or_else(|| panic!("{page} has no block {begins:?}")).text
}

fn runs(page: &str, block: &Block) -> bool {
    block.language == "sh"
        && !RUN_ELSEWHERE.contains(&page)
        && !NOT_RUN.iter().any(|(on, begins, _)| *on == page && block.text.starts_with(begins))
}

/// The PATH begins with this build's programs.
pub(crate) fn shell(folder: &Path, script: &str) -> Process {
    let programs = Binary::path("delayq").parent().unwrap().to_owned();
    let mut command = Command::new("bash");
    command.current_dir(folder).args(["-euo", "pipefail", "-c"]);
    command.arg(format!("export PATH={}:$PATH\n{script}", programs.display()));
    Process::spawn("a block of the page", command)
}

/// True if the text contains the line, with `…` as a wildcard within a line.
fn holds(printed: &str, line: &str) -> bool {
    printed.lines().any(|printed| {
        let mut rest = printed;
        line.split('…').all(|part| match rest.split_once(part.trim()) {
            Some((_, behind)) => {
                rest = behind;
                true
            }
            None => false,
        })
    })
}

async fn deployed(folder: &Folder) {
    wait_until("the servers to be there", SHORT, || async { folder.join(".delayq/delayq.toml").exists() })
        .await;
    let script = "until delayq --config .delayq/delayq.toml doctor > /dev/null 2>&1; do sleep 0.1; done";
    assert!(shell(folder.path(), script).wait_end(LONG).await.success());
}

async fn run(page: &str) {
    run_all(&[page]).await;
}

/// In sequence, in the deployment that the first page starts.
async fn run_all(pages: &[&str]) {
    run_all_in(&Folder::new("page"), pages).await;
}

/// As `run_all`, in this folder. The deployment ends when the returned processes are dropped.
pub(crate) async fn run_all_in(folder: &Folder, pages: &[&str]) -> Vec<Process> {
    let mut running = Vec::new();
    for page in pages {
        run_in(folder, page, &mut running).await;
    }
    running
}

/// Runs a page; `running` are the processes in the background, including those of earlier pages.
async fn run_in(folder: &Folder, page: &str, running: &mut Vec<Process>) {
    let blocks = blocks(&read(page));
    let blocks: Vec<&Block> = blocks.iter().filter(|block| runs(page, block)).collect();
    let (background, foreground): (Vec<_>, Vec<_>) = blocks.into_iter().partition(|block| block.background);
    if foreground.is_empty() {
        return;
    }
    let mut script = String::new();
    if background.is_empty() {
        running.push(shell(folder.path(), "exec delayq up"));
        script += "export DELAYQ_CONFIG=.delayq/delayq.toml\n";
    }
    if running.is_empty() {
        running.extend(background.iter().map(|block| shell(folder.path(), &format!("exec {}", block.text))));
    }
    deployed(folder).await;
    for block in &foreground {
        write!(script, "{}\necho '{BORDER}'\n", block.text).unwrap();
    }
    let mut process = shell(folder.path(), &script);
    let ended = process.wait_end(LONG).await;
    assert!(ended.success(), "{page}: {ended}:\n{}", process.tail());
    let printed = process.text(Stream::Out);
    for (block, printed) in foreground.iter().zip(printed.split(BORDER)) {
        for line in block.prints.lines().filter(|line| !line.is_empty()) {
            assert!(holds(printed, line), "{page}: {line} is not printed, but\n{printed}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_quick_start_runs_as_it_is_printed() {
    run("docs/quickstart.md").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_readme_runs_as_it_is_printed() {
    run("README.md").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_does_not_hang_on_what_the_page_before_has_finished() {
    run_all(&["README.md", "docs/quickstart.md"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_guides_run_as_they_are_printed() {
    for page in guides() {
        run(&page).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_configurations_of_the_guides_have_no_fault() {
    let folder = Folder::new("configurations");
    for page in guides() {
        for block in blocks(&read(&page)).iter().filter(|block| block.language == "toml") {
            let file = folder.join("delayq.toml");
            fs::write(&file, &block.text).unwrap();
            let check = Binary::new("delayq").arg("--config").arg(&file);
            let checked = check.args(["config", "check", "--offline"]).run(b"", SHORT).await;
            assert_eq!(checked.code, Some(0), "{page}: {checked:?}");
        }
    }
}

#[test]
fn every_block_runs_or_is_named_here() {
    let pages = ["README.md".to_owned(), "docs/quickstart.md".to_owned()].into_iter().chain(guides());
    let mut not_run = Vec::new();
    for page in pages {
        let text = read(&page);
        assert_eq!(indented(&text), Vec::<&str>::new(), "{page}: fence these, with their language");
        for block in blocks(&text) {
            assert!(LANGUAGES.contains(&&*block.language), "{page}: `{}`:\n{}", block.language, block.text);
            let not_runs =
                NOT_RUN.iter().filter(|(on, begins, _)| *on == page && block.text.starts_with(begins));
            not_run.extend(not_runs.map(|(_, begins, _)| (page.clone(), *begins)));
        }
    }
    let named: Vec<_> = NOT_RUN.iter().map(|(page, begins, _)| ((*page).to_owned(), *begins)).collect();
    assert_eq!(not_run, named, "each once, in the order of the pages");
}

#[test]
fn a_block_has_its_language_its_comment_and_what_it_prints() {
    let page = "a\n\n```sh\none\ntwo\n```\n\n```text\n1 … 2\n```\n<!-- in the background -->\n\n```sh\nup\n```\n\nb\n```text\nno\n```\n";
    let block = |language: &str, text: &str, background, prints: &str| Block {
        language: language.to_owned(),
        text: text.to_owned(),
        background,
        prints: prints.to_owned(),
    };
    let expected = [
        block("sh", "one\ntwo\n", false, "1 … 2\n"),
        block("sh", "up\n", true, ""),
        block("text", "no\n", false, ""),
    ];
    assert_eq!(blocks(page), expected);
    assert!(holds("0 1 and 2", "1 … 2") && !holds("2 1", "1 … 2"));
    assert_eq!(indented("a\n\n    code\n```sh\n\n    x\n```\n- b\n    c\n"), ["    code"]);
}
