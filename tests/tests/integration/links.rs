//! Links between the documents: each leads to an existing file, and to an existing heading.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

const SKIPPED: [&str; 6] = ["target", "node_modules", ".git", "dist", "build", ".venv"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

fn pages_below(path: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(path).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy();
        if path.is_dir() && !path.is_symlink() && !SKIPPED.contains(&&*name) {
            pages_below(&path, found);
        } else if name.ends_with(".md") {
            found.push(path);
        }
    }
}

/// The lines outside code blocks, fenced or indented after an empty line.
fn prose(text: &str) -> Vec<&str> {
    let (mut lines, mut fenced, mut before_empty) = (Vec::new(), false, true);
    let mut indented = false;
    for line in text.lines() {
        let fence = line.trim_start().starts_with("```");
        indented = line.starts_with("    ") && (before_empty || indented);
        if fence {
            fenced = !fenced;
        } else if !fenced && !indented {
            lines.push(line);
        }
        before_empty = line.trim().is_empty();
    }
    lines
}

fn without_code(line: &str) -> String {
    line.split('`').step_by(2).collect::<Vec<_>>().join("` `")
}

fn targets(text: &str) -> Vec<String> {
    let prose = prose(text).iter().map(|line| without_code(line)).collect::<Vec<_>>().join("\n");
    let mut targets = Vec::new();
    for (at, _) in prose.match_indices("](") {
        let rest = &prose[at + 2..];
        targets.extend(rest.split([')', ' ']).next().map(str::to_owned));
    }
    targets
}

/// The anchor of a heading, by the rules of GitHub and mdBook.
fn slug(heading: &str) -> String {
    // A link in a heading counts by its text.
    let mut text = String::new();
    let mut rest = heading;
    while let Some((before, link)) = rest.split_once("](") {
        text += before;
        rest = link.split_once(')').map_or("", |(_, after)| after);
    }
    text += rest;
    let kept = text.trim().to_lowercase();
    kept.chars()
        .filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c))
        .map(|c| if c == ' ' { '-' } else { c })
        .collect()
}

fn anchors(text: &str) -> BTreeSet<String> {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let mut anchors = BTreeSet::new();
    for line in prose(text).into_iter().filter(|line| line.starts_with('#')) {
        let slug = slug(line.trim_start_matches('#'));
        let before = seen.entry(slug.clone()).or_default();
        anchors.insert(if *before == 0 { slug } else { format!("{slug}-{before}") });
        *before += 1;
    }
    anchors
}

fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => _ = plain.pop(),
            part => plain.push(part),
        }
    }
    plain
}

fn dead(page: &Path, text: &str) -> Vec<String> {
    let mut dead = Vec::new();
    for target in targets(text) {
        if target.contains("://") || target.starts_with("mailto:") {
            continue;
        }
        let (path, anchor) =
            target.split_once('#').map_or((&*target, None), |(path, anchor)| (path, Some(anchor)));
        let file = if path.is_empty() { page.to_owned() } else { plain(&page.parent().unwrap().join(path)) };
        let there = file.exists();
        let known = anchor.is_none_or(|anchor| {
            there
                && file.extension().is_some_and(|kind| kind == "md")
                && anchors(&fs::read_to_string(&file).unwrap()).contains(anchor)
        });
        if !there || !known {
            dead.push(format!("{}: {target}", page.display()));
        }
    }
    dead
}

#[test]
fn every_link_leads_to_a_file_and_a_heading_that_are_there() {
    let mut pages = Vec::new();
    pages_below(&root(), &mut pages);
    assert!(pages.len() > 20, "only {} pages were found", pages.len());
    let dead: Vec<String> =
        pages.iter().flat_map(|page| dead(page, &fs::read_to_string(page).unwrap())).collect();
    assert!(dead.is_empty(), "{} dead links:\n{}", dead.len(), dead.join("\n"));
}

#[test]
fn every_page_of_the_book_is_in_its_summary_and_once() {
    let docs = root().join("docs");
    let mut pages = Vec::new();
    pages_below(&docs, &mut pages);
    let pages: BTreeSet<PathBuf> = pages.into_iter().filter(|page| !page.ends_with("SUMMARY.md")).collect();
    let listed: Vec<PathBuf> = targets(&fs::read_to_string(docs.join("SUMMARY.md")).unwrap())
        .iter()
        .map(|target| plain(&docs.join(target)))
        .collect();
    let once: BTreeSet<PathBuf> = listed.iter().cloned().collect();
    assert_eq!(once.len(), listed.len(), "a page is listed twice");
    assert_eq!(once, pages);
}

#[test]
fn a_dead_link_is_found() {
    let page = root().join("docs/architecture.md");
    let text = "# A `b`: c, [d](x)\n\n[1](#a-b-c-d) [2](operations.md) [3](nowhere.md) [4](#a) `[5](nowhere.md)`\n\
                [6](operations.md#nothing) [7](https://example.com/)\n\n```sh\n[8](nowhere.md)\n```\n\n    [9](nowhere.md)\n";
    let text = text.replace("[d](x)", "d");
    let found: Vec<String> =
        dead(&page, &text).iter().map(|dead| dead.rsplit(' ').next().unwrap().to_owned()).collect();
    // The anchor of this text belongs to the page itself.
    assert_eq!(found, ["#a-b-c-d", "nowhere.md", "#a", "operations.md#nothing"]);
    assert_eq!(slug(" A `b`: c, [d](x)"), "a-b-c-d");
}
