//! The modules of each crate: imports come from the defining module, and no two modules depend on each other; the place
//! of unit tests; the names that an application sees of `delayq`; and the number of methods of a type.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The libraries, whose imports come from the defining module.
const LIBRARIES: [&str; 3] = ["delayq-core", "delayq", "delayq-spool"];
/// The programs and their private libraries.
const PROGRAMS: [&str; 8] = [
    "delayq-service",
    "delayq-cluster",
    "delayq-look",
    "delayq-timer",
    "delayq-forwarder",
    "delayq-compensator",
    "delayq-gateway",
    "delayq-cli",
];

/// A module's path inside its crate; empty: the crate's root.
type Module = Vec<String>;

/// The modules of one crate, with their text except tests.
struct Modules(BTreeMap<Module, String>);

// === impl Modules ===

impl Modules {
    fn of(name: &str) -> Self {
        let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates").join(name).join("src");
        let mut files = Vec::new();
        rust_files(&src, &mut files);
        let module = |file: PathBuf| {
            let path = file.strip_prefix(&src).unwrap().with_extension("");
            let path: Module = path.iter().map(|part| part.to_string_lossy().into_owned()).collect();
            let text = fs::read_to_string(&file).unwrap();
            let tested = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default().to_owned();
            (if path == ["lib"] { Vec::new() } else { path }, tested)
        };
        Self(files.into_iter().map(module).collect())
    }

    /// The module of a path inside the crate: the longest prefix that is a module.
    fn holder(&self, path: &[String]) -> Module {
        let lengths = (0..=path.len()).rev();
        let mut beginnings = lengths.map(|length| path[..length].to_vec());
        beginnings.find(|beginning| self.0.contains_key(beginning)).unwrap_or_default()
    }

    /// The dependencies of each module: imports and full paths. A re-export is no dependency.
    fn needs(&self) -> BTreeMap<Module, BTreeSet<Module>> {
        let needed = |(module, text): (&Module, &String)| {
            let paths = paths(module, text).into_iter().map(|path| self.holder(&path));
            (module.clone(), paths.filter(|needed| needed != module).collect())
        };
        self.0.iter().filter(|(module, _)| !module.is_empty()).map(needed).collect()
    }
}

fn rust_files(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            rust_files(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

/// The paths inside the crate in a module's text.
fn paths(module: &Module, text: &str) -> Vec<Module> {
    let code: Vec<&str> = text.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    let code = code.join("\n");
    let mut found = Vec::new();
    for (start, inside) in starts(module, &code) {
        let rest = &code[start..];
        let end = rest.find([';', '(', ')', '>']).unwrap_or(rest.len());
        expand(&inside, &rest[..end], &mut found);
    }
    found
}

/// The start of each path after `crate::`, `super::`, or, in an import, after the name of a child; with the module of
/// that prefix.
fn starts(module: &Module, code: &str) -> Vec<(usize, Module)> {
    let mut starts = Vec::new();
    let parent = module[..module.len() - 1].to_vec();
    for (word, stands_for) in [("crate::", Vec::new()), ("super::", parent)] {
        for (at, _) in code.match_indices(word) {
            let before = code[..at].chars().next_back();
            let is_reexport = code[..at].ends_with("pub use ");
            if !is_reexport && before.is_none_or(|c| !c.is_alphanumeric() && c != '_') {
                starts.push((at + word.len(), stands_for.clone()));
            }
        }
    }
    for (at, _) in code.match_indices("\nuse ") {
        let rest = &code[at + 5..];
        let first: String = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        let declares = format!("mod {first};");
        if code.lines().any(|line| line.ends_with(&declares)) {
            starts.push((at + 5, module.clone()));
        }
    }
    starts
}

fn expand(inside: &[String], text: &str, found: &mut Vec<Module>) {
    let text = text.trim();
    let Some(open) = text.find('{') else {
        let words = text.split("::").map(|word| word.split_whitespace().next().unwrap_or_default());
        let names = words.take_while(|word| word.chars().all(|c| c.is_alphanumeric() || c == '_'));
        found.push(inside.iter().cloned().chain(names.map(str::to_owned)).collect());
        return;
    };
    let close = text.rfind('}').unwrap_or(text.len());
    let prefix = text[..open].split("::").filter(|word| !word.is_empty()).map(str::to_owned);
    let inside: Vec<String> = inside.iter().cloned().chain(prefix).collect();
    let (mut depth, mut start) = (0, open + 1);
    for (at, c) in text[..close].char_indices().skip_while(|(at, _)| *at <= open) {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                expand(&inside, &text[start..at], found);
                start = at + 1;
            }
            _ => {}
        }
    }
    if !text[start..close].trim().is_empty() {
        expand(&inside, &text[start..close], found);
    }
}

fn circle(needs: &BTreeMap<Module, BTreeSet<Module>>) -> Option<Vec<String>> {
    let mut left = needs.clone();
    loop {
        let free: Vec<Module> = left
            .iter()
            .filter(|(_, needed)| needed.iter().all(|needed| !left.contains_key(needed)))
            .map(|(module, _)| module.clone())
            .collect();
        if free.is_empty() {
            break;
        }
        free.iter().for_each(|module| drop(left.remove(module)));
    }
    let mut way = vec![left.keys().next()?.clone()];
    loop {
        let last = way.last().expect("it begins with one");
        let next = left[last].iter().find(|needed| left.contains_key(*needed)).expect("none left is free");
        if let Some(begin) = way.iter().position(|module| module == next) {
            return Some(way[begin..].iter().map(|module| module.join("::")).collect());
        }
        way.push(next.clone());
    }
}

#[test]
fn nothing_is_imported_through_the_face_of_its_crate() {
    for name in LIBRARIES {
        let needs = Modules::of(name).needs();
        let through: Vec<String> = needs
            .iter()
            .filter(|(_, needed)| needed.contains(&Vec::new()))
            .map(|(module, _)| module.join("::"))
            .collect();
        assert!(through.is_empty(), "{name}: import from the module that defines it in {through:?}");
    }
}

#[test]
fn no_modules_need_each_other() {
    for name in LIBRARIES {
        has_no_circle(name, &Modules::of(name).needs());
    }
    for name in PROGRAMS {
        // A module and the children form a unit: children see private parts of its type.
        let whole = |module: &Module| module[..1].to_vec();
        let mut needs: BTreeMap<Module, BTreeSet<Module>> = BTreeMap::new();
        for (module, needed) in Modules::of(name).needs() {
            let others = needed.iter().filter(|needed| !needed.is_empty()).map(whole);
            let module = whole(&module);
            needs.entry(module.clone()).or_default().extend(others.filter(|other| *other != module));
        }
        has_no_circle(name, &needs);
    }
}

fn has_no_circle(name: &str, needs: &BTreeMap<Module, BTreeSet<Module>>) {
    assert!(needs.values().any(|needed| !needed.is_empty()), "{name}: no import was found at all");
    if let Some(circle) = circle(needs) {
        panic!("{name}: {} → {}", circle.join(" → "), circle[0]);
    }
}

fn face(root: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for (at, _) in root.match_indices("pub use ") {
        let mut paths = Vec::new();
        let rest = &root[at + "pub use ".len()..];
        expand(&[], &rest[..rest.find(';').unwrap_or(rest.len())], &mut paths);
        names.extend(paths.into_iter().filter_map(|path| path.last().cloned()));
    }
    let modules = root.lines().filter_map(|line| line.strip_prefix("pub mod ")?.strip_suffix(';'));
    names.extend(modules.map(str::to_owned));
    names
}

#[test]
fn an_application_finds_few_names_at_the_root() {
    let root = &Modules::of("delayq").0[&Vec::new()];
    let names = face(root);
    assert!(!root.contains("::*"), "name what is exported");
    assert!(names.contains("Producer") && names.contains("protocol"), "{names:?}");
    assert!(names.len() <= 42, "{}: what services need belongs below protocol: {names:?}", names.len());
}

/// Maximum public methods of a type: beyond, the type has parts that deserve a handle or a type of their own.
const MOST_METHODS: usize = 25;

/// Counts the public methods of each type that a module implements.
fn methods(text: &str, counts: &mut BTreeMap<String, usize>) {
    let mut of = String::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("impl") {
            let rest =
                rest.strip_prefix('<').and_then(|rest| rest.split_once("> ")).map_or(rest, |(_, rest)| rest);
            let of_type = rest.trim_start().split(|c: char| !c.is_alphanumeric()).next();
            of = of_type.unwrap_or_default().to_owned();
        }
        let starts = ["    pub fn ", "    pub const fn ", "    pub async fn "];
        if starts.iter().any(|start| line.starts_with(start)) {
            *counts.entry(of.clone()).or_default() += 1;
        }
    }
}

#[test]
fn no_type_has_more_methods_than_a_reader_takes_in() {
    let mut seen = BTreeSet::new();
    for name in LIBRARIES.into_iter().chain(PROGRAMS) {
        let mut counts = BTreeMap::new();
        Modules::of(name).0.values().for_each(|text| methods(text, &mut counts));
        let crowded: Vec<_> = counts.iter().filter(|(_, count)| **count > MOST_METHODS).collect();
        assert!(crowded.is_empty(), "{name}: more than {MOST_METHODS} public methods: {crowded:?}");
        seen.extend(counts.into_keys());
    }
    for name in ["Admin", "TopicAdmin", "ShardsAdmin"] {
        assert!(seen.contains(name), "{name} was not counted: {seen:?}");
    }
}

#[test]
fn methods_are_counted_in_every_block_of_a_type() {
    let mut counts = BTreeMap::new();
    methods("impl A {\n    pub fn a(&self) {}\n    fn hidden() {}\n}\n", &mut counts);
    methods("impl<'a> A<'a> {\n    pub async fn b(self) {}\n    pub const fn c() {}\n}\n", &mut counts);
    assert_eq!(counts, BTreeMap::from([("A".to_owned(), 3)]));
}

#[test]
fn a_circle_and_an_import_through_the_face_are_found() {
    let text = |text: &str| text.to_owned();
    let module = |name: &str| name.split("::").map(str::to_owned).collect::<Module>();
    let modules = Modules(BTreeMap::from([
        (Vec::new(), text("mod a;\nmod b;\npub use a::A;\n")),
        (module("a"), text("use crate::{\n    b::{self, B},\n};\npub struct A;\n")),
        (module("b"), text("mod c;\npub use c::C;\n\nuse crate::A;\npub struct B;\n")),
        (module("b::c"), text("fn c() -> crate::a::A { todo!() }\npub struct C;\n")),
    ]));
    let needs = modules.needs();
    assert_eq!(needs[&module("b")], BTreeSet::from([Vec::new()]), "through the face");
    assert_eq!(needs[&module("a")], BTreeSet::from([module("b")]));
    assert_eq!(circle(&needs), None);
    let mut around = modules;
    around.0.insert(module("b"), text("mod c;\n\nuse c::C;\npub struct B;\n"));
    assert_eq!(circle(&around.needs()), Some(vec![text("a"), text("b"), text("b::c")]));
}

/// Unit tests longer than this have their own file.
const MOST_LINES_OF_TESTS: usize = 200;

/// The fault in the place of a file's unit tests.
fn fault_of_tests(text: &str) -> Option<&'static str> {
    let lines: Vec<&str> = text.lines().collect();
    let at =
        lines.iter().position(|line| line.trim_start().starts_with("#[cfg(") && line.contains("(test"))?;
    match &lines[at + 1..] {
        ["mod tests;"] => None,
        ["mod tests {", inside @ .., "}"] if !inside.contains(&"}") => {
            (inside.len() > MOST_LINES_OF_TESTS).then_some("they belong into NAME/tests.rs: there are many")
        }
        _ => Some("`#[cfg(test)] mod tests` is the end of a file, and the only thing for tests in it"),
    }
}

#[test]
fn unit_tests_are_the_end_of_a_file_or_a_file_of_their_own() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut files = Vec::new();
    ["crates", "bench", "tests/src"].iter().for_each(|folder| rust_files(&root.join(folder), &mut files));
    let wrong = files.iter().filter_map(|file| {
        let name = file.file_name().unwrap().to_string_lossy();
        let misnamed = name.ends_with("_tests.rs").then_some("unit tests stand in NAME/tests.rs");
        Some((file.display(), misnamed.or_else(|| fault_of_tests(&fs::read_to_string(file).unwrap()))?))
    });
    let wrong: Vec<String> = wrong.map(|(file, fault)| format!("{file}: {fault}")).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn misplaced_unit_tests_are_found() {
    let inline = |lines: usize| {
        format!("fn f() {{}}\n\n#[cfg(test)]\nmod tests {{\n{}}}\n", "    // test\n".repeat(lines))
    };
    assert_eq!(fault_of_tests("fn f() {}\n"), None);
    assert_eq!(fault_of_tests("fn f() {}\n\n#[cfg(test)]\nmod tests;\n"), None);
    assert_eq!(fault_of_tests(&inline(MOST_LINES_OF_TESTS)), None);
    assert!(fault_of_tests(&inline(MOST_LINES_OF_TESTS + 1)).is_some());
    assert!(fault_of_tests(&format!("{}\nfn g() {{}}\n", inline(1))).is_some());
    assert!(fault_of_tests("#[cfg(test)]\nfn only_for_tests() {}\n").is_some());
}
