//! The page in Chromium alone, and in the journeys of `tests/page/journeys.mjs` (`make test-page`).

use super::scene::Scene;
use crate::stage::{Running, Stage, topic};
use delayq::{Message, UnixMillis};
use delayq_gateway::token_line;
use delayq_tests::deadline::{LONG, within};
use delayq_tests::folder::Folder;
use delayq_tests::remark::skipped;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::Command;

const JOURNEYS: Duration = Duration::from_mins(10);

const ALONE: &str = "[etcd]\nenabled = false\n";

const TOOLS: &str = "DELAYQ_TEST_PAGE";

fn chromium() -> Option<PathBuf> {
    let names = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];
    names.map(PathBuf::from).into_iter().find(|path| path.exists())
}

async fn seen(chromium: &Path, profile: &Folder, url: &str) -> String {
    let mut command = Command::new(chromium);
    command.args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]);
    command.args(["--lang=en", "--virtual-time-budget=2000", "--dump-dom", url]);
    command.arg(format!("--user-data-dir={}", profile.path().display()));
    command.env("HOME", profile.path());
    let Output { stdout, stderr, .. } = ended(command, LONG).await;
    let text = String::from_utf8_lossy(&stdout).into_owned();
    assert!(text.contains("</html>"), "{text}\n{}", String::from_utf8_lossy(&stderr));
    text
}

async fn ended(mut command: Command, deadline: Duration) -> Output {
    let running = command.stdin(Stdio::null()).kill_on_drop(true).output();
    within("the end of the browser", deadline, running).await.unwrap()
}

#[tokio::test]
async fn a_browser_shows_topics_a_list_and_a_message_in_both_languages() {
    let Some(chromium) = chromium() else { return skipped("there is no Chromium") };
    let (stage, profile) = (Stage::start(ALONE).await, Folder::new("chromium"));
    let far = Message::new(topic("orders"), "x").at(UnixMillis::new(4_070_908_800_000));
    stage.deployment.put([far.id("order-17").unwrap().group("user-5").unwrap()]).await;
    let seen = async |place: &str| {
        seen(&chromium, &profile, &format!("http://{}/{place}", stage.gateway.address)).await
    };
    for (place, words) in [
        (
            "",
            vec![
                "Overview",
                "orders",
                "wait for their due time",
                "What is wrong",
                "No timer has ever owned",
                "docs/runbooks.md#delayqshardunowned",
            ],
        ),
        ("?lang=zh", vec!["总览", "orders", "lang=\"zh-CN\""]),
        ("?topic=orders", vec!["order-17", "user-5", "When they become due"]),
        (
            "?topic=orders&id=order-17&group=user-5",
            vec!["Delayed", "It waits for its due time", "Reschedule"],
        ),
        ("?view=find&group=user-5", vec!["order-17", "Pending messages of the group user-5"]),
        ("?topic=orders&id=%3Cb%3E", vec!["Nothing is known of this message", "&lt;b&gt;"]),
    ] {
        let shown = seen(place).await;
        for word in words {
            assert!(shown.contains(word), "{place} lacks {word}: {shown}");
        }
    }
}

#[tokio::test]
async fn without_a_session_a_browser_is_asked_for_a_token_and_shown_nothing_else() {
    let Some(chromium) = chromium() else { return skipped("there is no Chromium") };
    let (folder, profile) = (Folder::new("tokens"), Folder::new("chromium"));
    let file = folder.join("tokens");
    std::fs::write(&file, token_line("shop", "secret")).unwrap();
    let stage = Stage::start(&format!("tokens = \"{}\"\n{ALONE}", file.display())).await;
    stage.deployment.put([Message::new(topic("orders"), "x")]).await;
    let shown = seen(&chromium, &profile, &format!("http://{}/", stage.gateway.address)).await;
    assert!(shown.contains("type=\"password\"") && !shown.contains("orders"), "{shown}");
}

#[tokio::test]
#[allow(clippy::disallowed_methods, reason = "the variable names what only `make` installs")]
async fn every_journey_of_a_reader_ends_well() {
    let Some(tools) = std::env::var_os(TOOLS) else { return skipped("make test sets DELAYQ_TEST_PAGE") };
    let chromium = chromium().expect("make setup installs Chromium");
    let (scene, folder) = (Scene::start().await, Folder::new("journeys"));
    let url = |gateway: &Running| format!("http://{}", gateway.address);
    let journeys = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/page/journeys.mjs");
    let mut command = Command::new("node");
    command.arg(journeys).current_dir(folder.path()).env("TOOLS", tools).env("CHROMIUM", chromium);
    command.env("GATEWAY", url(&scene.main)).env("OTHER", url(&scene.stage.gateway));
    command.env("PEOPLE", url(&scene.people)).env("TOKENS", &scene.tokens);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
    let mut walking = command.spawn().unwrap();
    let (mut asks, said) = (walking.stdin.take().unwrap(), walking.stdout.take().unwrap());
    let mut lines = BufReader::new(said).lines();
    let walk = async {
        while let Some(line) = lines.next_line().await.unwrap() {
            println!("{line}");
            if scene.does(&line).await {
                asks.write_all(b"done\n").await.unwrap();
            }
        }
        walking.wait().await.unwrap()
    };
    let status = within("the end of the journeys", JOURNEYS, walk).await;
    assert!(status.success(), "{status}: see the lines above");
}
