//! Forwarding by `delayq up`, set by an option or a configuration.

use super::{Up, delayq, lines};
use delayq_tests::binary::Binary;
use delayq_tests::deadline::{LONG, SHORT, wait_until};
use delayq_tests::folder::Folder;
use delayq_tests::process::Signal;

#[tokio::test]
async fn up_forwards_what_it_is_asked_to_and_says_so() {
    let up = Up::start(&["--forward", "notices.*=file"]).await;
    assert!(
        up.process.tail().contains("notices.* to the sink up-file, delivered.ndjson"),
        "{}",
        up.process.tail()
    );
    for topic in ["notices.mail", "orders"] {
        up.done(&["put", topic, "{}"]).await;
    }
    let delivered = up.data().join("forwarded/delivered.ndjson");
    wait_until("a delivery", SHORT, async || lines(&delivered) == 1).await;
    assert!(up.done(&["count", "orders", "--json"]).await.contains("\"ready\": 1"));
    up.stop().await;
    let refused = Binary::new("delayq").args(["up", "--forward", "orders=kafka"]).run(b"", SHORT).await;
    assert_eq!(refused.code, Some(64), "{refused:?}");
    assert!(refused.stderr.contains("unknown destination `kafka`"), "{refused:?}");
}

#[tokio::test]
async fn the_variable_that_the_readme_exports_does_not_keep_up_from_starting() {
    let folder = Folder::new("up");
    for _ in 0..2 {
        let up = Binary::new("delayq").args(["up", "--no-etcd"]).env("DELAYQ_CONFIG", ".delayq/delayq.toml");
        let mut up = up.current_dir(folder.path()).start();
        up.wait_for_line("delayq is up", LONG).await;
        up.ends_well_by(Signal::INT, SHORT).await;
    }
}

#[tokio::test]
async fn up_lives_by_a_given_configuration_but_keeps_its_own_servers() {
    let folder = Folder::new("up");
    let (data, given, out) = (folder.join("data"), folder.join("given.toml"), folder.join("out"));
    std::fs::create_dir(&out).unwrap();
    let text = format!(
        "[deployment]\nnamespace = \"mine\"\nshards = 3\n[redis]\nurl = \"redis://127.0.0.1:1\"\n\
         [sinks.out.file]\ndir = \"{}\"\n[[routes]]\ntopic = \"orders\"\nsink = \"out\"\nto = \"orders.ndjson\"\n",
        out.display()
    );
    let start =
        || Binary::new("delayq").args(["up", "--no-etcd", "--data"]).arg(&data).arg("--config").arg(&given);
    std::fs::write(&given, text.replace("shards = 3", "shards = 0")).unwrap();
    let refused = start().run(b"", SHORT).await;
    assert_eq!(refused.code, Some(78), "{refused:?}");
    assert!(refused.stderr.contains("given.toml:3"), "{}", refused.stderr);

    std::fs::write(&given, text).unwrap();
    let mut up = start().start();
    up.wait_for_line("delayq is up", LONG).await;
    let put = delayq(&data, &["put", "orders", "{}"]).run(b"", SHORT).await;
    assert_eq!(put.code, Some(0), "{put:?}");
    wait_until("a delivery", SHORT, async || lines(&out.join("orders.ndjson")) == 1).await;
    let shown = delayq(&data, &["config", "show", "--effective"]).run(b"", SHORT).await;
    assert!(
        shown.stdout.contains("namespace = \"mine\"") && shown.stdout.contains("shards = 3"),
        "{shown:?}"
    );
    up.ends_well_by(Signal::INT, SHORT).await;
}

#[tokio::test]
async fn a_topic_is_not_forwarded_into_a_file_of_up_itself() {
    let up = Up::start(&["--forward", "**=file:{topic}"]).await;
    let before = std::fs::read_to_string(up.data().join("delayq.toml")).unwrap();
    up.done(&["put", "delayq.toml", "{}"]).await;
    let delivered = up.data().join("forwarded/delayq.toml");
    wait_until("a delivery", SHORT, async || lines(&delivered) == 1).await;
    assert_eq!(std::fs::read_to_string(up.data().join("delayq.toml")).unwrap(), before);
    up.stop().await;
}
