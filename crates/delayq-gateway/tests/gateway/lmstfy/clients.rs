//! lmstfy's own clients, each by its own tests (`make test-lmstfy`).

use super::scene::Scene;
use delayq_tests::deadline::within;
use delayq_tests::folder::Folder;
use delayq_tests::remark::skipped;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;
use tokio::process::Command;

const SOURCE: &str = "DELAYQ_TEST_LMSTFY";
const RUN: Duration = Duration::from_mins(10);

/// In place of set-ups that start lmstfy's server, or name where it is.
const SET_UP: &str = r#"package client

import (
	"os"
	"strconv"
)

var (
	Host      = os.Getenv("LMSTFY_HOST")
	Port, _   = strconv.Atoi(os.Getenv("LMSTFY_PORT"))
	Namespace = "ns"
	Token     = os.Getenv("LMSTFY_TOKEN")
)

var TestHost, TestPort, TestNamespace, TestToken = Host, Port, Namespace, Token
"#;

/// A copy of a client's source, and a gateway for it.
struct Trial {
    source: Folder,
    scene: Scene,
}

#[tokio::test]
async fn the_tests_of_the_client_in_lmstfys_repository_pass() {
    let Some(trial) = Trial::of("lmstfy", "command -v go").await else { return };
    trial.write("client/setup_test.go", SET_UP);
    trial.passes("go test -count=1 ./client/").await;
}

#[tokio::test]
async fn the_tests_of_the_go_client_pass() {
    let Some(trial) = Trial::of("go-lmstfy-client", "command -v go").await else { return };
    trial.write("client/setup_test.go", SET_UP);
    trial.passes("go test -count=1 ./client/").await;
}

/// Without the TLS of its year, which needs an OpenSSL that no system has any more, and with the latest dependencies that it
/// allows: the locked ones hand the kernel malformed addresses, as std's have another layout now.
#[tokio::test]
async fn the_tests_of_the_rust_client_pass() {
    let Some(trial) = Trial::of("rust-lmstfy-client", "command -v cargo").await else { return };
    let manifest = std::fs::read_to_string(trial.source.join("Cargo.toml")).unwrap();
    let (dependency, plain) = ("reqwest = { ", "reqwest = { default-features = false, ");
    assert!(manifest.contains(dependency), "{manifest}");
    trial.write("Cargo.toml", &manifest.replace(dependency, plain));
    std::fs::remove_file(trial.source.join("Cargo.lock")).unwrap();
    trial.passes("cargo test --quiet").await;
}

#[tokio::test]
async fn every_method_of_the_php_client_works() {
    let Some(trial) = Trial::of("php-lmstfy-client", "php -m | grep -x curl").await else { return };
    trial.write("walk.php", include_str!("client.php"));
    trial.passes("php walk.php").await;
}

// === impl Trial ===

impl Trial {
    /// `None` without the sources, or if the shell does not find the client's runtime.
    #[allow(
        clippy::disallowed_methods,
        reason = "the variable names a folder that only `make test-lmstfy` is given"
    )]
    async fn of(name: &str, runtime: &str) -> Option<Self> {
        let Some(sources) = std::env::var_os(SOURCE) else {
            skipped("make test-lmstfy sets DELAYQ_TEST_LMSTFY");
            return None;
        };
        if !Command::new("sh").args(["-c", runtime]).output().await.unwrap().status.success() {
            skipped(&format!("`{runtime}` finds nothing"));
            return None;
        }
        let source = Folder::new(name);
        let mut copy = Command::new("cp");
        copy.arg("-r").arg(Path::new(&sources).join(name).join(".")).arg(source.path());
        assert!(copy.status().await.unwrap().success(), "{name} is not in {}", sources.display());
        Some(Self { source, scene: Scene::start().await })
    }

    fn write(&self, file: &str, text: &str) {
        std::fs::write(self.source.join(file), text).unwrap();
    }

    async fn passes(self, command: &str) {
        let _timer = self.scene.stage.timer();
        let (host, port) = self.scene.ports.api.strip_prefix("http://").unwrap().rsplit_once(':').unwrap();
        let token = &self.scene.ports.token;
        let config = serde_json::json!({
            "namespace": "ns", "token": token, "host": host, "port": port.parse::<u16>().unwrap(), "queue_suffix": "test",
        });
        let words: Vec<_> = command.split(' ').collect();
        let mut run = Command::new(words[0]);
        run.args(&words[1..]).current_dir(self.source.path());
        run.env("LMSTFY_HOST", host).env("LMSTFY_PORT", port).env("LMSTFY_TOKEN", token);
        run.env("LMSTFY_CLIENT_TEST_CONFIG", config.to_string());
        run.env("CARGO_TARGET_DIR", concat!(env!("CARGO_TARGET_TMPDIR"), "/lmstfy"));
        let mut running = run.stdin(Stdio::null()).kill_on_drop(true).spawn().unwrap();
        let status = within("the end of the client's tests", RUN, running.wait()).await.unwrap();
        assert!(status.success(), "{status}: see the failures above");
    }
}
