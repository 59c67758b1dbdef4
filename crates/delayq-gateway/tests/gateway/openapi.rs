//! schemathesis against a gateway: whatever it makes of the document, is the answer as the document says? (`make test-openapi`)

use crate::stage::Stage;
use delayq_gateway::token_line;
use delayq_tests::deadline::within;
use delayq_tests::folder::Folder;
use delayq_tests::remark::skipped;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;
use tokio::process::Command;

const TOOL: &str = "DELAYQ_TEST_SCHEMATHESIS";
/// Of each route, and of sequences.
const EXAMPLES: &str = "15";
const RUN: Duration = Duration::from_mins(20);

#[tokio::test]
#[allow(clippy::disallowed_methods, reason = "the variable names what only `make test-openapi` installs")]
async fn every_answer_is_as_the_document_says() {
    let Some(tool) = std::env::var_os(TOOL) else {
        return skipped("make test-openapi sets DELAYQ_TEST_SCHEMATHESIS");
    };
    let folder = Folder::new("openapi");
    let tokens = folder.join("tokens");
    std::fs::write(&tokens, token_line("every", "secret")).unwrap();
    let stage =
        Stage::private(&format!("tokens = \"{}\"\n[etcd]\nenabled = false\n", tokens.display())).await;
    let crate_root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let of_tests = crate_root.join("tests/openapi");
    let mut command = Command::new(tool);
    command.arg("--config-file").arg(of_tests.join("schemathesis.toml")).args(["run", "--no-color"]);
    command.args(["--header", "Authorization: Bearer secret"]).arg(crate_root.join("openapi.json"));
    command.args(["--url", &format!("http://{}", stage.gateway.address), "--max-examples", EXAMPLES]);
    command.env("SCHEMATHESIS_HOOKS", of_tests.join("hooks.py")).env("PYTHONDONTWRITEBYTECODE", "1");
    // schemathesis keeps what it found in the working directory.
    command.current_dir(folder.path());
    let mut running = command.stdin(Stdio::null()).kill_on_drop(true).spawn().unwrap();
    let status = within("the end of schemathesis", RUN, running.wait()).await.unwrap();
    assert!(status.success(), "{status}: see the findings above");
}
