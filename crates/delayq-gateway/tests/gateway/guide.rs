//! The guide's commands, pasted as a reader does.

use super::stage::{Stage, topic};
use delayq::Message;
use delayq_tests::deadline::{LONG, within};
use delayq_tests::folder::Folder;
use delayq_tests::process::{Process, Signal};
use delayq_tests::remark::skipped;
use std::path::Path;
use std::process::Stdio;
use tokio::process::Command;

/// The output of a script with `GATEWAY` in its environment.
async fn printed(stage: &Stage<impl Sized>, script: &str) -> String {
    let mut command = Command::new("bash");
    command.args(["-c", &format!("set -e -o pipefail\n{script}")]);
    command.env("GATEWAY", format!("http://{}", stage.gateway.address));
    let running = command.stdin(Stdio::null()).kill_on_drop(true).output();
    let output = within("the guide", LONG, running).await.unwrap();
    let (said, failed) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{said}{failed}");
    said.into_owned()
}

/// The blocks of a guide in one language.
fn blocks(guide: &str, language: &str) -> Vec<String> {
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guides").join(guide);
    let (guide, fence) = (std::fs::read_to_string(guide).unwrap(), format!("```{language}\n"));
    guide.split(&fence).skip(1).map(|rest| rest.split("```").next().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn every_command_of_the_guide_does_what_it_says() {
    let stage = Stage::start("").await;
    let said = printed(&stage, &blocks("http.md", "sh").concat()).await;
    for said_there in [
        r#""outcome":"stored""#,
        r#""payload":"{\"order\": 17}""#,
        r#""outcome":"moved""#,
        r#""outcome":"cancelled""#,
        r#"{"delayed":1,"intervals":["#,
        r#""outcomes":{"ready":2}"#,
        r#"[{"outcome":"delivered"}]"#,
        r#""outcome":"extended""#,
        r#""moved":1"#,
        r#""cancelled":1"#,
        r#""rate":100.0"#,
        r#""max_attempts":"5""#,
    ] {
        assert!(said.contains(said_there), "no {said_there} in: {said}");
    }
}

#[tokio::test]
async fn the_programs_of_other_languages_put_wait_and_acknowledge_as_the_guide_prints() {
    let (stage, folder) = (Stage::private("").await, Folder::new("languages"));
    let _timer = stage.timer();
    let runs = [
        ("php", "php program.php"),
        ("ruby", "ruby program.ruby"),
        (
            "csharp",
            "mcs -r:System.Net.Http -r:System.Runtime.Serialization program.csharp -out:p.exe; mono p.exe",
        ),
    ];
    let wanted = blocks("http-clients.md", "text").remove(0);
    for (language, run) in runs {
        let [program] = blocks("http-clients.md", language).try_into().unwrap();
        std::fs::write(folder.join(&format!("program.{language}")), program).unwrap();
        let said = printed(&stage, &format!("cd '{}'\n{run}", folder.path().display())).await;
        assert_eq!(said, wanted, "{language}");
    }
}

/// The arguments with which this Node has a WebSocket; `None`: this Node has no WebSocket.
async fn node_with_web_socket() -> Option<Vec<&'static str>> {
    let version = Command::new("node").arg("--version").output().await.ok()?;
    let version = String::from_utf8_lossy(&version.stdout).into_owned();
    match version.strip_prefix('v')?.split('.').next()?.parse::<u32>().ok()? {
        22.. => Some(Vec::new()),
        20..22 => Some(vec!["--experimental-websocket"]),
        _ => None,
    }
}

#[tokio::test]
async fn the_stream_of_the_guide_acknowledges_what_comes_and_hears_of_the_end_of_its_gateway() {
    let Some(arguments) = node_with_web_socket().await else {
        return skipped("a WebSocket needs Node 20 or newer");
    };
    let (mut stage, folder) = (Stage::start("").await, Folder::new("stream"));
    let [program] = blocks("http.md", "js").try_into().unwrap();
    let file = folder.join("worker.mjs");
    std::fs::write(&file, program).unwrap();
    let mut command = std::process::Command::new("node");
    command.args(arguments).arg(&file).env("GATEWAY", format!("http://{}", stage.gateway.address));
    command.env_remove("TOKEN");
    let mut worker = Process::spawn("node", command);
    stage.deployment.put([Message::new(topic("mails"), "one").id("m1").unwrap()]).await;
    worker.wait_for_line("m1: one, attempt 1", LONG).await;
    worker.wait_for_line("delivered", LONG).await;
    stage.gateway.process.signal(Signal::TERM);
    worker.wait_for_line("closed: 1001 DQ-G119: the gateway is stopping", LONG).await;
    assert!(worker.wait_end(LONG).await.success(), "{}", worker.tail());
    assert!(stage.gateway.process.wait_end(LONG).await.success(), "{}", stage.gateway.process.tail());
}
