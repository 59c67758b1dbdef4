//! Another user of the machine can do nothing to the servers and files of `delayq up`.

use delayq_tests::binary::Binary;
use delayq_tests::deadline::{LONG, SHORT};
use delayq_tests::folder::Folder;
use delayq_tests::process::{Process, Signal};
use delayq_tests::remark::skipped;
use serde_json::Value;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

const NOBODY: &str = "65534";

async fn up(data: &Path, more: &[&str]) -> Process {
    let mut up = Binary::new("delayq").args(["up", "--json", "--data"]).arg(data).args(more).start();
    up.wait_for_line("created_shards", LONG).await;
    up
}

/// Runs a program as another user, which only root may.
fn as_nobody(program: &str, args: &[&str]) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups", program]);
    command.args(args).env("ETCDCTL_API", "3").current_dir("/");
    command
}

fn tried(mut command: Command) -> (String, bool) {
    let output = command.output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (String::from_utf8_lossy(&text).into_owned(), output.status.success())
}

fn everything_in(path: &Path, found: &mut Vec<PathBuf>) {
    found.push(path.to_owned());
    if path.is_dir() {
        std::fs::read_dir(path).unwrap().for_each(|entry| everything_in(&entry.unwrap().path(), found));
    }
}

fn ports(data: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(data.join("ports.json")).unwrap()).unwrap()
}

#[tokio::test]
async fn another_user_reaches_neither_the_files_nor_the_servers_of_up() {
    let folder = Folder::new("private");
    let data = folder.join("data");
    let mut up = up(&data, &[]).await;
    let delayq = Binary::new("delayq").env("DELAYQ_CONFIG", data.join("delayq.toml"));
    let put = delayq.args(["put", "orders", "secret", "--in", "1h"]).run(b"", SHORT).await;
    assert_eq!(put.code, Some(0), "{put:?}");

    let mut found = Vec::new();
    everything_in(&data, &mut found);
    for path in found {
        let mode = path.symlink_metadata().unwrap().mode();
        // etcd chooses the modes of its own socket and files; the folder is closed.
        let inside = path.strip_prefix(&data).unwrap().starts_with("etcd/");
        assert!(inside || mode & 0o077 == 0, "{}: {mode:o}", path.display());
    }
    let etcd = ports(&data)["etcd"].to_string();
    let (secure, plain) =
        (format!("--endpoints=https://127.0.0.1:{etcd}"), format!("--endpoints=127.0.0.1:{etcd}"));
    let read = ["--command-timeout=2s", "get", "/", "--prefix"];
    let stranger =
        [&["--insecure-skip-tls-verify", "--insecure-transport=false", &secure], &read[..]].concat();
    if rustix::process::geteuid().is_root() {
        let socket = data.join("redis.sock");
        let (text, _) = tried(as_nobody("redis-cli", &["-s", socket.to_str().unwrap(), "PING"]));
        assert!(text.contains("Permission denied"), "{text}");
        for args in [&stranger[..], &[&[plain.as_str()], &read[..]].concat()] {
            let (text, succeeded) = tried(as_nobody("etcdctl", args));
            assert!(!succeeded && !text.contains("/delayq/"), "{args:?}: {text}");
        }
    } else {
        skipped("only root can be another user");
    }
    let pem = |name: &str| data.join(name).display().to_string();
    let mut friend = Command::new("etcdctl");
    friend.args(stranger).env("ETCDCTL_API", "3");
    friend.args(["--cert", &pem("etcd.pem"), "--key", &pem("etcd-key.pem")]);
    let (text, succeeded) = tried(friend);
    assert!(succeeded && text.contains("/delayq/"), "{text}");
    up.ends_well_by(Signal::INT, SHORT).await;
}

#[tokio::test]
async fn where_no_socket_is_possible_redis_asks_for_a_password_that_every_command_finds() {
    let folder = Folder::new("private");
    let data = folder.join(&"long".repeat(30));
    let mut up = up(&data, &["--no-etcd"]).await;
    let port = ports(&data)["redis"].to_string();
    let asked = Command::new("redis-cli").args(["-p", &port, "FLUSHALL"]).output().unwrap();
    assert!(String::from_utf8_lossy(&asked.stdout).contains("NOAUTH"), "{asked:?}");
    let commands = std::fs::read_dir("/proc").unwrap().flatten();
    let password = std::fs::read_to_string(data.join("redis.password")).unwrap();
    for entry in commands {
        let command = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        assert!(!String::from_utf8_lossy(&command).contains(&password), "a command line shows the password");
    }
    let delayq = || Binary::new("delayq").env("DELAYQ_CONFIG", data.join("delayq.toml"));
    let put = delayq().args(["put", "orders", "{}", "--in", "1h"]).run(b"", SHORT).await;
    assert_eq!(put.code, Some(0), "{put:?}");
    let shown = delayq().args(["config", "show", "--effective"]).run(b"", SHORT).await;
    assert!(!shown.stdout.contains(&password), "{}", shown.stdout);
    up.ends_well_by(Signal::INT, SHORT).await;
}
