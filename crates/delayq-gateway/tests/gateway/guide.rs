//! The guide's commands, pasted as a reader does.

use super::stage::Stage;
use delayq_tests::deadline::LONG;
use std::path::Path;
use std::process::Stdio;
use tokio::process::Command;

#[tokio::test]
async fn every_command_of_the_guide_does_what_it_says() {
    let stage = Stage::start("").await;
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guides/http.md");
    let guide = std::fs::read_to_string(guide).unwrap();
    let blocks = guide.split("```sh\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    let script = format!("set -e -o pipefail\n{}", blocks.collect::<String>());
    let mut command = Command::new("bash");
    command.args(["-c", &script]).env("GATEWAY", format!("http://{}", stage.gateway.address));
    let running = command.stdin(Stdio::null()).kill_on_drop(true).output();
    let output = delayq_tests::deadline::within("the guide", LONG, running).await.unwrap();
    let (said, failed) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{said}{failed}");
    for said_there in [
        r#""outcome":"stored""#,
        r#""payload":"{\"order\": 17}""#,
        r#""outcome":"moved""#,
        r#""outcome":"cancelled""#,
        r#"{"delayed":1,"intervals":["#,
        r#""outcomes":{"ready":2}"#,
        r#"[{"outcome":"delivered"}]"#,
        r#""moved":1"#,
        r#""cancelled":1"#,
        r#""rate":100.0"#,
        r#""max_attempts":"5""#,
    ] {
        assert!(said.contains(said_there), "no {said_there} in: {said}");
    }
}
