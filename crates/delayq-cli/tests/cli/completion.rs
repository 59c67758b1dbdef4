//! Completions: the shell's script runs delayq, which asks the deployment named on the line.

use super::{deployment, done};
use delayq_tests::binary::Binary;
use delayq_tests::deadline::SHORT;
use delayq_tests::ports::free_port;
use std::time::{Duration, Instant};
use tokio::process::Command;

/// By the protocol of the shell's script.
async fn offered(shell: &str, line: &[&str]) -> Vec<String> {
    let ask = Binary::new("delayq").env("DELAYQ_COMPLETE", shell).arg("--").arg("delayq").args(line);
    let finished = ask.env("_CLAP_COMPLETE_INDEX", line.len().to_string()).run(b"", SHORT).await;
    assert_eq!((finished.code, finished.stderr.as_str()), (Some(0), ""), "{line:?}");
    let word = |line: &str| line.split(['\t', ':']).next().unwrap_or_default().to_owned();
    finished.stdout.split(['\n', '\u{b}']).map(word).filter(|word| !word.is_empty()).collect()
}

#[tokio::test]
async fn every_shell_offers_the_topics_of_the_deployment_that_the_line_names() {
    let redis = deployment().await;
    for topic in ["orders.paid", "orders.late", "notices"] {
        done(&redis, &["put", topic, "{}", "--in", "1h"]).await;
    }
    let url = redis.url();
    let at = ["--redis", &url, "--shards", "4"];
    for shell in ["bash", "zsh", "fish"] {
        for line in [
            &["list", "or"][..],
            &["topic", "set", "or"],
            &["work", "notices", "or"],
            &["dead", "list", "or"],
        ] {
            assert_eq!(
                offered(shell, &[&at, line].concat()).await,
                ["orders.late", "orders.paid"],
                "{shell}: {line:?}"
            );
        }
        assert_eq!(offered(shell, &["resch"]).await, ["reschedule"], "{shell}");
    }
}

#[tokio::test]
async fn bash_completes_a_topic_with_the_script_that_is_printed() {
    let redis = deployment().await;
    done(&redis, &["put", "orders", "{}", "--in", "1h"]).await;
    let script = "source <(\"$0\" completions bash | sed \"s|^ *\\\"*delayq\\\"* --|$0 --|\")
        COMP_WORDS=(delayq --redis \"$1\" --shards 4 get or) COMP_CWORD=6 COMP_TYPE=9
        _clap_complete_delayq delayq or get; printf '%s' \"${COMPREPLY[*]}\"";
    let delayq = Binary::path("delayq");
    let bash =
        Command::new("bash").arg("-c").arg(script).arg(delayq).arg(redis.url()).output().await.unwrap();
    assert_eq!(String::from_utf8_lossy(&bash.stdout), "orders", "{bash:?}");
}

#[tokio::test]
async fn without_a_redis_completions_are_silent_and_soon() {
    let nobody = format!("redis://127.0.0.1:{}", free_port());
    let began = Instant::now();
    assert_eq!(offered("bash", &["--redis", &nobody, "get", "or"]).await, Vec::<String>::new());
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
}
