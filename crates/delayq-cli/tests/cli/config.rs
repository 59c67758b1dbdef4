//! The configuration: all errors at once with file and line, exit code 78; the effective values, without secrets.

use delayq_tests::binary::{Binary, Finished};
use delayq_tests::deadline::SHORT;
use delayq_tests::folder::Folder;

async fn with(text: &str, args: &[&str]) -> Finished {
    let folder = Folder::new("config");
    let file = folder.join("delayq.toml");
    std::fs::write(&file, text).unwrap();
    Binary::new("delayq").arg("--config").arg(&file).args(args).run(b"", SHORT).await
}

#[tokio::test]
async fn every_fault_is_named_at_once_with_its_line() {
    let text = "[deployment]\nshards = 0\n\n[redis]\nurl = \"http://x\"\ncall_deadline = \"-1s\"\n\n[timer]\nbatch = 501\n\n\
                [forwarder]\nleese = \"1s\"\n\n[[routes]]\ntopic = \"a\"\nsink = \"none\"\n\n[timmer]\n";
    for args in [&["config", "check"][..], &["config", "show", "--effective"]] {
        let finished = with(text, args).await;
        assert_eq!(finished.code, Some(78), "{finished:?}");
        assert_eq!(finished.stdout, "");
        for expected in [
            "DQ-C001",
            "delayq.toml",
            "deployment.shards",
            "redis.url",
            "redis.call_deadline",
            "timer.batch",
            "leese",
            "routes[0].sink",
            "timmer",
        ] {
            assert!(finished.stderr.contains(expected), "{expected} is not in\n{}", finished.stderr);
        }
    }
}

#[tokio::test]
async fn contradictions_and_unreadable_files_are_faults() {
    let finished = with("[etcd]\nlease_ttl = \"5s\"\ncall_deadline = \"6s\"\n", &["config", "check"]).await;
    assert_eq!(finished.code, Some(78));
    assert!(finished.stderr.contains("etcd.call_deadline"), "{}", finished.stderr);
    let few =
        "[deployment]\nshards = 8\n\n[[redis.nodes]]\nname = \"a\"\nurl = \"redis://a\"\nshards = \"0-3\"\n";
    for args in [&["config", "check"][..], &["topics"]] {
        let finished = with(few, args).await;
        assert_eq!(finished.code, Some(78));
        let named = "delayq.toml:2: deployment.shards: 8, but only 4 have a node in redis.nodes";
        assert!(finished.stderr.contains(named), "{}", finished.stderr);
    }
    let finished = with("[redis\n", &["topics"]).await;
    assert_eq!(finished.code, Some(78));
    let finished = Binary::new("delayq").args(["--config", "/nonexistent", "topics"]).run(b"", SHORT).await;
    assert_eq!(finished.code, Some(78));
    assert!(finished.stderr.contains("DQ-C002"), "{}", finished.stderr);
}

#[tokio::test]
async fn what_is_in_force_is_shown_without_secrets() {
    let text = "[deployment]\nshards = 8\n[redis]\nurl = \"redis://h:1\"\npassword = \"hunter2\"\n";
    let show = Binary::new("delayq").env("DELAYQ__REDIS__CALL_DEADLINE", "1s").args(["--namespace", "other"]);
    let folder = Folder::new("config");
    let file = folder.join("delayq.toml");
    std::fs::write(&file, text).unwrap();
    let finished =
        show.arg("--config").arg(&file).args(["config", "show", "--effective"]).run(b"", SHORT).await;
    assert_eq!(finished.code, Some(0), "{finished:?}");
    for expected in [
        "namespace = \"other\"",
        "shards = 8",
        "call_deadline = \"1s\"",
        "***",
        "DELAYQ__REDIS__CALL_DEADLINE",
    ] {
        assert!(finished.stdout.contains(expected), "{expected} is not in\n{}", finished.stdout);
    }
    assert!(!format!("{finished:?}").contains("hunter2"));
}

#[tokio::test]
async fn the_sample_file_has_no_faults() {
    let sample = include_str!("../../../../config/delayq.toml");
    let finished = with(sample, &["config", "check"]).await;
    assert_eq!(finished.code, Some(0), "{finished:?}");
    assert!(finished.stdout.trim_end().ends_with("no faults"), "{finished:?}");
}
