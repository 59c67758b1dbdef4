//! The first programs of the README of each client in another language, after the README and the quick start, all in one
//! deployment: none may depend on, or hang on, what a page before has finished.
//!
//! `scripts/test-clients.sh install` brings the packages that they need; a client without its packages is skipped by name.

use crate::shell::{read, root, run_all_in};
use delayq_tests::binary::Binary;
use delayq_tests::deadline::LONG;
use delayq_tests::folder::Folder;
use delayq_tests::process::{Process, Signal, Stream};
use delayq_tests::remark::skipped;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

struct Client<'a> {
    language: &'static str,
    folder: &'a Path,
    url: &'a str,
}

impl Client<'_> {
    /// The `n`-th program of its README.
    fn program(&self, fence: &str, n: usize) -> String {
        let page = read(&format!("clients/{}/README.md", self.language));
        let fence = format!("```{fence}\n");
        let block = page.split(&fence).nth(n + 1);
        let block = block.unwrap_or_else(|| panic!("{}: no program {n}", self.language));
        block.split("```").next().unwrap_or_default().replace("unix:///tmp/delayq/redis.sock", self.url)
    }

    fn start(&self, program: impl AsRef<Path>, args: &[&str]) -> Process {
        let mut command = Command::new(program.as_ref());
        command.current_dir(self.folder).args(args).env("REDIS_URL", self.url);
        command.env("PYTHONPATH", root().join("clients/python")).env("PYTHONDONTWRITEBYTECODE", "1");
        Process::spawn(self.language, command)
    }

    /// Waits for the line that tells of the delivery, and ends the worker as a supervisor does.
    async fn delivers(&self, mut worker: Process, line: &str) {
        worker.wait_for_line(line, LONG).await;
        let ended = worker.end_by(Signal::TERM, LONG).await;
        assert!(ended.code().is_none_or(|code| code == 0), "{}: {ended}:\n{}", self.language, worker.tail());
    }
}

async fn python(client: Client<'_>) {
    let interpreter = root().join("clients/python/.venv/bin/python");
    if !interpreter.exists() {
        return skipped("clients/python has no .venv: scripts/test-clients.sh install");
    }
    let worker = client.start(&interpreter, &["-c", &client.program("python", 0)]);
    let mut producer = client.start(&interpreter, &["-c", &client.program("python", 1)]);
    assert!(producer.wait_end(LONG).await.success(), "{}", producer.tail());
    assert_eq!(producer.text(Stream::Out), "py-order-17 stored \ncancelled\n");
    client.delivers(worker, r#"due: py-order-17 {"order":17}"#).await;
}

async fn node(client: Client<'_>) {
    let package = root().join("clients/node");
    if !package.join("dist/src/index.js").exists() {
        return skipped("clients/node is not built: scripts/test-clients.sh install");
    }
    fs::create_dir(client.folder.join("node_modules")).unwrap();
    symlink(&package, client.folder.join("node_modules/delayq")).unwrap();
    fs::write(client.folder.join("program.mjs"), client.program("js", 0)).unwrap();
    client.delivers(client.start("node", &["program.mjs"]), "node-17 is due: { order: 17 }").await;
}

async fn go(client: Client<'_>) {
    let package = root().join("clients/go");
    if Command::new("go").arg("version").output().is_err() {
        return skipped("clients/go: go is missing");
    }
    let module = "github.com/delayq/delayq/clients/go";
    fs::write(client.folder.join("main.go"), client.program("go", 0)).unwrap();
    fs::copy(package.join("go.sum"), client.folder.join("go.sum")).unwrap();
    let definition = format!(
        "module user\n\ngo 1.19\n\nrequire {module} v0.1.0\n\nreplace {module} => {}\n",
        package.display()
    );
    fs::write(client.folder.join("go.mod"), definition).unwrap();
    let mut build = client.start("go", &["build", "-mod=mod", "-o", "program", "."]);
    assert!(build.wait_end(LONG).await.success(), "{}", build.tail());
    client.delivers(client.start(client.folder.join("program"), &[]), r#"go-17 is due: {"order":17}"#).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_first_program_of_a_client_does_not_hang_on_what_a_page_before_has_finished() {
    let deployment = Folder::new("clients");
    let _running = run_all_in(&deployment, &["README.md", "docs/quickstart.md"]).await;
    let url = format!("unix://{}", deployment.join(".delayq/redis.sock").display());
    for language in ["python", "node", "go"] {
        let folder = deployment.join(language);
        fs::create_dir(&folder).unwrap();
        let client = Client { language, folder: &folder, url: &url };
        match language {
            "python" => python(client).await,
            "node" => node(client).await,
            _ => go(client).await,
        }
    }
    let audit =
        Binary::new("delayq").arg("--config").arg(deployment.join(".delayq/delayq.toml")).arg("audit");
    let audited = audit.run(b"", LONG).await;
    assert_eq!(audited.code, Some(0), "{audited:?}");
}

fn between<'t>(text: &'t str, from: &str, to: &str) -> Vec<&'t str> {
    text.split(from).skip(1).filter_map(|rest| rest.split(to).next()).collect()
}

#[test]
fn no_two_pages_use_the_same_topic() {
    let pages = [
        ("README.md", " put ", " "),
        ("docs/quickstart.md", " put ", " "),
        ("clients/python/README.md", "Message(\"", "\""),
        ("clients/node/README.md", "topic: \"", "\""),
        ("clients/go/README.md", "Topic: \"", "\""),
    ];
    let mut used = BTreeMap::new();
    for (page, from, to) in pages {
        let text = read(page);
        let topics = between(&text, from, to);
        assert!(!topics.is_empty(), "{page}");
        for topic in topics {
            assert_eq!(*used.entry(topic.to_owned()).or_insert(page), page, "the topic {topic}");
        }
    }
}
