//! The gateway of `delayq up`.

use super::Up;
use delayq_tests::deadline::{SHORT, within};
use tokio::process::Command;

async fn shell(line: &str) -> String {
    let mut shell = Command::new("sh");
    let running = shell.args(["-c", line]).kill_on_drop(true).output();
    let output = within("the command", SHORT, running).await.expect("there is a shell");
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::test]
async fn the_command_that_is_printed_is_answered_and_no_other_user_of_the_host() {
    let mut up = Up::start(&[]).await;
    let command = &up.process.wait_for_line("  curl ", SHORT).await;
    up.done(&["put", "orders", "{}", "--id", "order-17", "--in", "1h"]).await;
    let topics = shell(command).await;
    assert!(topics.contains(r#""orders""#), "{topics}");
    let (_, url) = command.rsplit_once(' ').unwrap();
    let refused = shell(&format!("curl --silent --write-out ' %{{http_code}}' {url}")).await;
    assert!(refused.ends_with(" 401") && !refused.contains("orders"), "{refused}");
    up.stop().await;
}

#[tokio::test]
async fn the_link_to_the_page_that_is_printed_logs_in_once() {
    let mut up = Up::start(&[]).await;
    let line = up.process.wait_for_line("/?once=", SHORT).await;
    let (_, link) = line.split_once("http://").unwrap();
    let (address, code) = link.trim().split_once("/?once=").unwrap();
    assert!(
        shell(&format!("curl --silent 'http://{address}/?once={code}'")).await.contains("<!doctype html>")
    );
    let session = format!(
        "curl --silent --cookie-jar - 'http://{address}/v1/session' -H 'Content-Type: application/json' -d '{{\"once\": \"{code}\"}}'"
    );
    let first = shell(&session).await;
    assert!(first.contains(r#""name":"up""#) && first.contains("#HttpOnly_127.0.0.1"), "{first}");
    let second = shell(&session).await;
    assert!(second.contains("DQ-G121") && second.contains(r#""reason":"used""#), "{second}");
    up.stop().await;
}

#[tokio::test]
async fn what_is_put_over_http_while_redis_is_silent_is_spooled_and_carried_out() {
    let mut up = Up::start(&[]).await;
    let command = up.process.wait_for_line("  curl ", SHORT).await;
    let (curl, _) = command.rsplit_once("/topics").unwrap();
    let (curl, url) = curl.rsplit_once(' ').unwrap();
    let put = format!(
        "{curl} --silent -X PUT {url}/topics/orders/messages/order-17 -H 'Content-Type: application/json' -d '{{}}'"
    );
    let redis = format!("redis-cli -s {}", up.data().join("redis.sock").display());
    assert_eq!(shell(&format!("{redis} CLIENT PAUSE 6000 ALL")).await.trim(), "OK");
    let spooled = shell(&put).await;
    assert!(spooled.contains(r#""outcome":"spooled""#), "{spooled}");
    assert_eq!(shell(&format!("{redis} PING")).await.trim(), "PONG", "the pause is over");
    up.done(&["work", "orders", "--count", "1", "--", "true"]).await;
    up.stop().await;
}
