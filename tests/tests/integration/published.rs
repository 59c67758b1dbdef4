//! The clients' packages are ready for publishing: version, licence and repository agree with the workspace.

use crate::shell::{read, root};
use serde_json::Value;
use std::fs;

/// The key has a line to itself.
fn told(file: &str, key: &str) -> String {
    let page = read(file);
    let value = page.lines().find_map(|line| line.strip_prefix(key)?.trim().strip_prefix('='));
    value.unwrap_or_else(|| panic!("{file} has no {key}")).trim().trim_matches('"').to_owned()
}

#[test]
fn each_client_has_the_version_the_licence_and_the_repository_of_the_workspace() {
    let [version, licence, repository] =
        ["version", "license", "repository"].map(|key| told("Cargo.toml", key));
    let python =
        ["name", "version", "license", "Repository"].map(|key| told("clients/python/pyproject.toml", key));
    assert_eq!(python, ["delayq", &version, &licence, &repository]);
    let node: Value = serde_json::from_str(&read("clients/node/package.json")).unwrap();
    for (key, told) in [("name", "delayq"), ("version", &version), ("license", &licence)] {
        assert_eq!(node[key], told, "{key}");
    }
    assert_eq!(node["repository"]["url"], format!("git+{repository}.git"));
    assert_eq!(node["repository"]["directory"], "clients/node");
    let module = format!("{}/clients/go", repository.trim_start_matches("https://"));
    assert!(read("clients/go/go.mod").starts_with(&format!("module {module}\n")), "{module}");
    assert!(read("clients/go/README.md").contains(&format!("{module}@v{version}")), "{module}");
}

#[test]
fn each_client_brings_the_licence_and_the_changes_of_its_version() {
    let (version, licence) = (told("Cargo.toml", "version"), read("LICENSE"));
    for client in ["python", "node", "go"] {
        assert!(read(&format!("clients/{client}/LICENSE")) == licence, "{client} has another licence");
        let changes = read(&format!("clients/{client}/CHANGELOG.md"));
        assert!(changes.contains(&format!("\n## {version}\n")), "{client} has no changes of {version}");
        let readme = fs::read_to_string(root().join("clients").join(client).join("README.md")).unwrap();
        assert!(
            readme.contains("From a checkout of the repository"),
            "{client} cannot be installed from its folder"
        );
    }
}
