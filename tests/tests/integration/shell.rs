//! The shell blocks of the README and of the quick start run as they are printed, in order, in an empty folder.
//!
//! A block that cannot run here has a comment above it that says why: `<!-- not run: … -->`. One that keeps running, in
//! a terminal of its own, has `<!-- in the background -->`; one that has to print something, `<!-- prints: … -->`.

use delayq_tests::binary::Binary;
use delayq_tests::deadline::{LONG, SHORT, wait_until};
use delayq_tests::folder::Folder;
use delayq_tests::process::{Process, Stream};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A block, and what is to be done with it.
#[derive(Debug, PartialEq, Eq)]
enum Block {
    Run(String),
    Background(String),
    NotRun(String),
}

/// The fenced `sh` blocks of a page.
fn blocks(page: &str) -> Vec<Block> {
    let (mut blocks, mut comment, mut open) = (Vec::new(), "", None::<String>);
    for line in page.lines() {
        match &mut open {
            Some(block) if line.starts_with("```") => {
                let block = std::mem::take(block);
                open = None;
                blocks.push(match comment {
                    "" => Block::Run(block),
                    prints if prints.starts_with("prints: ") => Block::Run(block),
                    "in the background" => Block::Background(block),
                    why => Block::NotRun(
                        why.strip_prefix("not run: ").unwrap_or_else(|| panic!("{why}")).to_owned(),
                    ),
                });
                comment = "";
            }
            Some(block) => *block += &format!("{line}\n"),
            None if line == "```sh" => open = Some(String::new()),
            None => {
                let marked = line.strip_prefix("<!-- ").and_then(|rest| rest.strip_suffix(" -->"));
                match marked {
                    Some(marked) => comment = marked,
                    None if line.trim().is_empty() => {}
                    None => comment = "",
                }
            }
        }
    }
    blocks
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// A shell in this folder that finds the programs of this build first.
fn shell(folder: &Path, script: &str) -> Process {
    let programs = Binary::path("delayq").parent().unwrap().to_owned();
    let mut command = Command::new("bash");
    command.current_dir(folder).args(["-euo", "pipefail", "-c"]);
    command.arg(format!(
        "export PATH={}:$PATH DELAYQ_ROOT={}\n{script}",
        programs.display(),
        root().display()
    ));
    Process::spawn("a block of the page", command)
}

/// Runs the blocks of a page; what they printed.
async fn run(page: &str) -> String {
    let folder = Folder::new("page");
    let (mut running, mut script) = (Vec::new(), String::new());
    for block in blocks(page) {
        match block {
            Block::Run(block) => script += &block,
            Block::Background(block) => running.push(shell(folder.path(), &block)),
            Block::NotRun(_) => {}
        }
    }
    if !running.is_empty() {
        wait_until("the servers to be there", SHORT, || async {
            folder.join(".delayq/delayq.toml").exists()
        })
        .await;
        let mut doctor = shell(
            folder.path(),
            "until delayq --config .delayq/delayq.toml doctor > /dev/null 2>&1; do sleep 0.1; done",
        );
        assert!(doctor.wait_end(LONG).await.success());
    }
    let mut foreground = shell(folder.path(), &script);
    let ended = foreground.wait_end(LONG).await;
    assert!(ended.success(), "{ended}:\n{}", foreground.tail());
    foreground.text(Stream::Out)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_quick_start_runs_as_it_is_printed() {
    let page = fs::read_to_string(root().join("docs/quickstart.md")).unwrap();
    let not_run = blocks(&page).iter().filter(|block| matches!(block, Block::NotRun(_))).count();
    assert_eq!(not_run, 1, "only the installation cannot run here");
    let printed = run(&page).await;
    for line in page.lines().filter_map(|line| line.strip_prefix("<!-- prints: ")?.strip_suffix(" -->")) {
        assert!(printed.contains(line), "{line} is not in\n{printed}");
    }
}

#[test]
fn a_comment_says_what_is_done_with_a_block() {
    let page = "a\n\n<!-- not run: needs root -->\n```sh\napt\n```\n\n```sh\none\ntwo\n```\n<!-- in the background -->\n\n```sh\nup\n```\n```text\nno\n```\n";
    let expected = [
        Block::NotRun("needs root".to_owned()),
        Block::Run("one\ntwo\n".to_owned()),
        Block::Background("up\n".to_owned()),
    ];
    assert_eq!(blocks(page), expected);
}
