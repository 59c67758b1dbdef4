//! lmstfy's own client in Go, by its own tests (`make test-lmstfy SOURCE=FOLDER`).

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

/// In place of the set-up that starts lmstfy's server and empties its Redis.
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
"#;

#[tokio::test]
#[allow(
    clippy::disallowed_methods,
    reason = "the variable names a folder that only `make test-lmstfy` is given"
)]
async fn the_tests_of_its_own_client_pass() {
    let Some(source) = std::env::var_os(SOURCE) else {
        return skipped("make test-lmstfy sets DELAYQ_TEST_LMSTFY");
    };
    let (source, copy) = (Path::new(&source), Folder::new("lmstfy"));
    std::fs::create_dir(copy.join("client")).unwrap();
    for file in ["go.mod", "go.sum", "client/client.go", "client/client_test.go", "client/errors.go"] {
        std::fs::copy(source.join(file), copy.join(file)).unwrap();
    }
    std::fs::write(copy.join("client/setup_test.go"), SET_UP).unwrap();
    let scene = Scene::start().await;
    let _timer = scene.stage.timer();
    let address = scene.ports.api.strip_prefix("http://").unwrap();
    let (host, port) = address.rsplit_once(':').unwrap();
    let mut command = Command::new("go");
    command.args(["test", "-count=1", "./client/"]).current_dir(copy.path());
    command.env("LMSTFY_HOST", host).env("LMSTFY_PORT", port).env("LMSTFY_TOKEN", &scene.ports.token);
    let mut running = command.stdin(Stdio::null()).kill_on_drop(true).spawn().unwrap();
    let status = within("the end of the client's tests", RUN, running.wait()).await.unwrap();
    assert!(status.success(), "{status}: see the failures above");
}
