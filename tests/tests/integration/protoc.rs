//! `crates/delayq-cluster/protoc/protoc`, which answers the build of etcd-client in the place of protoc.

use delayq_tests::folder::Folder;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn stand_in() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/delayq-cluster/protoc/protoc")
}

/// What it does for the build script of a package on a machine without protoc.
fn asked_by(name: &str, version: &str) -> (Output, Option<Vec<u8>>) {
    let folder = Folder::new("protoc");
    fs::write(folder.join("Cargo.toml"), format!("[package]\nname = \"{name}\"\nversion = \"{version}\"\n"))
        .unwrap();
    for tool in ["sh", "grep", "cp", "dirname"] {
        let places = ["/usr/bin", "/bin"].map(|place| Path::new(place).join(tool));
        let tool_path = places.iter().find(|path| path.exists()).unwrap();
        std::os::unix::fs::symlink(tool_path, folder.join(tool)).unwrap();
    }
    let args = ["--include_imports", "--include_source_info", "-o", "answer", "-I", "proto", "a.proto"];
    let mut protoc = Command::new(stand_in());
    let done =
        protoc.args(args).current_dir(folder.path()).env_clear().env("PATH", folder.path()).output().unwrap();
    (done, fs::read(folder.join("answer")).ok())
}

fn locked() -> String {
    let lock = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../Cargo.lock")).unwrap();
    let behind = lock.split_once("name = \"etcd-client\"\nversion = \"").unwrap().1;
    behind.split('"').next().unwrap().to_owned()
}

#[test]
fn the_etcd_client_in_use_is_built_without_protoc() {
    let (done, answer) = asked_by("etcd-client", &locked());
    assert!(done.status.success(), "record its protocol again: {done:?}");
    assert_eq!(answer, fs::read(stand_in().with_file_name("etcd-client.fds")).ok());
}

#[test]
fn no_other_package_or_version_gets_the_recorded_protocol() {
    for (name, version) in [("etcd-client", "9.0.0"), ("opentelemetry-proto", &locked())] {
        let (done, answer) = asked_by(name, version);
        assert!(!done.status.success() && answer.is_none(), "{name} {version}: {done:?}");
        assert!(String::from_utf8_lossy(&done.stderr).contains("install protoc"), "{done:?}");
    }
}
