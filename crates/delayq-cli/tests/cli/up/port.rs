//! `delayq up --port`: programs of every language reach its Redis, by a line to paste.

use super::{Up, delayq};
use delayq_tests::binary::Binary;
use delayq_tests::deadline::{SHORT, wait_until};
use std::net::TcpListener;

#[tokio::test]
async fn programs_find_a_redis_on_the_port_that_they_were_given() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let up = Up::start(&["--port", &port.to_string()]).await;
    // The lines to paste follow the line that reports the start.
    wait_until("the lines to paste", SHORT, || async { up.process.tail().contains("shell:") }).await;
    let (printed, data) = (up.process.tail(), up.data());
    for line in ["REDIS_URL", "Rust:", "Python:", "Node:", "Go:", "shell:"] {
        assert!(printed.contains(line), "{printed}");
    }
    let pasted = |start: &str| {
        let line = printed.lines().find_map(|line| line.trim_start().strip_prefix(start));
        line.unwrap_or_else(|| panic!("{printed}")).trim().to_owned()
    };
    let typed = format!("export {}; {} ping; echo $REDIS_URL", pasted("export"), pasted("shell:"));
    let said = std::process::Command::new("sh").args(["-c", &typed]).output().unwrap();
    let said = String::from_utf8(said.stdout).unwrap();
    let (answer, url) = said.trim_end().rsplit_once('\n').unwrap();
    assert_eq!(answer, "PONG", "{typed}");
    let reached = Binary::new("delayq").args(["--redis", url, "put", "orders", "{}"]).run(b"", SHORT).await;
    assert_eq!(reached.code, Some(0), "{reached:?}");
    let listed = delayq(&data, &["count", "orders", "--json"]).run(b"", SHORT).await;
    assert!(listed.stdout.contains("\"accepted\": 1"), "{listed:?}");
    let args = ["up", "--no-etcd", "--data", "other", "--port", &port.to_string()];
    let folder = delayq_tests::folder::Folder::new("up");
    let taken = Binary::new("delayq").current_dir(folder.path()).args(args).run(b"", SHORT).await;
    assert!(taken.code == Some(64) && taken.stderr.contains("choose another port"), "{taken:?}");
    up.stop().await;
}
