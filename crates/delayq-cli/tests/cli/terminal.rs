//! Text of producers and workers reaches the operator's terminal without control characters.

use super::top::OnTerminal;
use super::{delayq, deployment, done, run};
use delayq::{Client, Consumer, ConsumerOptions, Settings, ShardCount, Topic};
use delayq_tests::deadline::{SHORT, within};
use delayq_tests::redis_server::SharedRedis;
use std::process::Command;

/// Clears the screen, sets the title, and reverses the following text; the last is a one-byte sequence introducer.
const EVIL: &str = "\u{1b}[2J\u{1b}]0;owned\u{7}\u{202e}\u{2066}\u{9b}31m";
const EVIL_ID: &str = "id\u{202e}di";

async fn bury_with_a_reason(redis: &SharedRedis) {
    let settings = Settings::new(redis.url()).shards(ShardCount::new(4).unwrap());
    let options = ConsumerOptions::new([Topic::new("t").unwrap()]);
    let mut consumer = Consumer::start(Client::new(settings), options).unwrap();
    let delivery = within("a delivery", SHORT, consumer.next()).await.unwrap();
    delivery.bury(EVIL).await.unwrap();
    consumer.stop().await;
}

fn assert_is_only_shown(text: &str, what: &[&str]) {
    let obeyed =
        |letter: char| letter != '\n' && (letter.is_control() || "\u{202e}\u{2066}".contains(letter));
    assert!(!text.contains(obeyed), "{what:?}: {text:?}");
}

#[tokio::test]
async fn no_control_character_of_a_message_reaches_the_terminal() {
    let redis = deployment().await;
    let header = format!("h={EVIL}");
    let put = ["put", "t", EVIL, "--id", EVIL_ID, "--group", "g\u{202e}", "--header", &header];
    assert_is_only_shown(&done(&redis, &put).await, &put);
    let ready: [&[&str]; 6] = [
        &["get", "t", EVIL_ID, "--group", "g\u{202e}"],
        &["get", "t", EVIL_ID, "--group", "g\u{202e}", "--json"],
        &["log", "t", EVIL_ID, "--group", "g\u{202e}"],
        &["list", "t", "--state", "ready"],
        &["list", "t", "--state", "ready", "--json"],
        &["audit", "--bodies"],
    ];
    for args in ready {
        assert_is_only_shown(&done(&redis, args).await, args);
    }
    bury_with_a_reason(&redis).await;
    for args in [&["dead", "list", "t"][..], &["dead", "list", "t", "--json"], ready[0], ready[2]] {
        let text = done(&redis, args).await;
        assert_is_only_shown(&text, args);
        assert!(text.contains("\\u001b[2J"), "{args:?}: {text}");
    }
    for args in
        [&["get", "t", EVIL][..], &["get", "t", "no\u{202e}"], &["no\u{1b}"], &["topic", "show", "\u{9b}"]]
    {
        let finished = run(&redis, args).await;
        assert_ne!(finished.code, Some(0), "{args:?}");
        assert_is_only_shown(&finished.stderr, args);
    }
}

#[tokio::test]
async fn a_payload_is_escaped_on_a_terminal_and_comes_byte_for_byte_elsewhere() {
    let redis = deployment().await;
    done(&redis, &["put", "t", EVIL, "--id", "a", "--in", "1h"]).await;
    let get = ["get", "t", "a", "--payload"];
    assert_eq!(done(&redis, &get).await, EVIL);
    let on_a_terminal = delayq(&redis).args(get).on_a_terminal(SHORT).await;
    assert!(on_a_terminal.contains("\\u001b[2J"), "{on_a_terminal:?}");
    assert_is_only_shown(&on_a_terminal.replace('\r', ""), &get);
    // Colours come from the program; message text appears between them.
    let table = delayq(&redis).args(["get", "t", "a"]).on_a_terminal(SHORT).await;
    assert!(table.contains("\u{1b}[1m"), "{table:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_table_is_wider_than_a_terminal_of_80_or_40_columns_or_breaks_a_heading() {
    let redis = deployment().await;
    for topic in ["orders", "reminders/eu-central"] {
        done(&redis, &["put", topic, "{}", "--in", "36h", "--group", "user-17"]).await;
    }
    for args in [
        &["topics"][..],
        &["shards"],
        &["timers"],
        &["audit"],
        &["doctor"],
        &["check", "--format", "human"],
        &["list", "reminders/eu-central"],
        &["topic", "show", "orders"],
        &["histogram", "orders"],
        &["top", "--once", "--interval", "500ms"],
    ] {
        let wide = run(&redis, args).await.stdout;
        let is_heading =
            |word: &&str| word.len() > 1 && word.chars().all(|letter| letter.is_ascii_uppercase());
        let headings: Vec<&str> = wide.split_whitespace().filter(is_heading).collect();
        for columns in [80, 40] {
            let mut program = Command::new(env!("CARGO_BIN_EXE_delayq"));
            program.args(["--redis", &redis.url(), "--shards", "4"]).args(args);
            program.env("DELAYQ__ETCD__ENABLED", "false").env("TERM", "xterm");
            let shown = OnTerminal::start_with(program, columns, 24).all().await;
            let tables =
                shown.lines().filter(|line| !line.starts_with(['(', ' ', '-']) && !line.contains(": "));
            for line in tables {
                assert!(line.chars().count() <= columns.into(), "{args:?} at {columns}: {line:?}");
            }
            for heading in &headings {
                assert!(shown.contains(heading), "{args:?} at {columns}: {heading} is not in\n{shown}");
            }
        }
    }
}
