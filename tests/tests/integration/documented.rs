//! The page that names the tests of each promise: every named test must exist.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

fn tests_below(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            tests_below(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let (text, file) =
                (fs::read_to_string(&path).unwrap(), path.file_stem().unwrap().to_str().unwrap());
            let mut lines = text.lines().map(str::trim);
            while let Some(line) = lines.next() {
                if line == "#[test]" || line.starts_with("#[tokio::test") {
                    let function = lines.find_map(|line| line.split_once("fn ")).map(|(_, rest)| rest);
                    found.extend(
                        function
                            .and_then(|rest| rest.split('(').next())
                            .map(|name| format!("{file}::{name}")),
                    );
                }
            }
        }
    }
}

fn snippet(page: &Path) -> String {
    let text = fs::read_to_string(page).unwrap();
    let (_, from) =
        text.split_once("```rust,no_run\n").unwrap_or_else(|| panic!("{} has no snippet", page.display()));
    from.split("```").next().unwrap_or_default().to_owned()
}

#[test]
fn the_snippet_of_the_readme_is_the_one_that_is_compiled() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    assert_eq!(snippet(&root.join("README.md")), snippet(&root.join("crates/delayq/README.md")));
}

#[test]
fn the_programs_of_the_outbox_guide_are_the_files_that_are_tested() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let guide = fs::read_to_string(root.join("docs/guides/outbox.md")).unwrap();
    let blocks = guide.matches("```sql\n").count() + guide.matches("```python\n").count();
    let files: Vec<_> = fs::read_dir(root.join("examples/outbox")).unwrap().collect();
    assert_eq!(blocks, files.len());
    for file in files {
        let path = file.unwrap().path();
        let text = fs::read_to_string(&path).unwrap();
        assert!(guide.contains(&format!("\n{text}```")), "{} is not in the guide as it is", path.display());
    }
}

#[test]
fn every_test_that_this_page_names_is_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut there = BTreeSet::new();
    for folder in ["bench/tests", "crates", "tests/src", "tests/tests"] {
        tests_below(&root.join(folder), &mut there);
    }
    let pages = ["tests/README.md"].map(|page| fs::read_to_string(root.join(page)).unwrap());
    let named: BTreeSet<&str> =
        pages.iter().flat_map(|page| page.split('`')).filter(|word| word.contains("::")).collect();
    assert!(named.len() > 80, "{} tests are named", named.len());
    let missing: Vec<_> = named.iter().filter(|name| !there.contains(**name)).collect();
    assert!(missing.is_empty(), "named and not there: {missing:#?}");
}

/// The numbers with which the lines of a section begin, as far as `mark` finds one.
fn numbers(text: &str, mark: impl Fn(&str) -> Option<&str>) -> BTreeSet<u8> {
    text.lines().filter_map(|line| mark(line)?.parse().ok()).collect()
}

#[test]
fn every_promise_of_the_readme_has_its_tests() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let read = |page: &str| fs::read_to_string(root.join(page)).unwrap();
    let (readme, page) = (read("README.md"), read("tests/README.md"));
    let (_, promises) = readme.split_once("## What it promises").unwrap();
    let promised = numbers(promises, |line| Some(line.split_once(". ")?.0));
    let (_, proofs) = page.split_once("## The promises of the README").unwrap();
    let proved = numbers(proofs.split("\n## ").next().unwrap_or_default(), |line| {
        let (promise, tests) = line.strip_prefix("| ")?.split_once(" | ")?;
        tests.contains("::").then(|| promise.split(' ').next())?
    });
    assert!(promised.len() > 5, "{promised:?}");
    assert_eq!(promised, proved, "the promises of README.md, and those with tests in tests/README.md");
}

#[test]
fn every_suite_that_this_page_names_is_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let page = fs::read_to_string(root.join("tests/README.md")).unwrap();
    let files: BTreeSet<&str> = page.split('`').filter(|word| word.ends_with(".rs")).collect();
    let missing: Vec<_> = files
        .iter()
        .filter(|file| !["", "tests"].iter().any(|folder| root.join(folder).join(file).exists()))
        .collect();
    assert!(files.len() > 3 && missing.is_empty(), "named and not there: {missing:#?} of {files:#?}");
}
