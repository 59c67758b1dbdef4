//! The modules of each crate: imports come from the defining module, and no two modules depend on each other; the place
//! of unit tests; the names that an application sees of `delayq`; and the number of methods of a type.

mod modules;

use modules::{Modules, Names, Needs, circle, leaves};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// The modules of each crate.
fn crates() -> BTreeMap<String, Modules> {
    let folders = fs::read_dir(root().join("crates")).unwrap().map(|entry| entry.unwrap().path());
    let modules = folders.map(|folder| {
        (folder.file_name().unwrap().to_string_lossy().into_owned(), Modules::of(&folder.join("src")))
    });
    modules.collect()
}

pub(crate) fn rust_files(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            rust_files(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

/// The modules that import from the root of their crate.
fn through_the_root(needs: &Needs) -> Vec<String> {
    let through = needs.iter().filter(|(_, needed)| needed.contains(&Vec::new()));
    through.map(|(module, _)| module.join("::")).collect()
}

#[test]
fn nothing_is_imported_through_the_face_of_its_crate() {
    for (name, modules) in crates() {
        let through = through_the_root(&modules.needs());
        assert!(through.is_empty(), "{name}: import from the module that defines it in {through:?}");
    }
}

#[test]
fn no_modules_need_each_other() {
    let crates = crates();
    assert!(crates.len() >= 11, "{:?}", crates.keys());
    for (name, modules) in crates {
        let needs = modules.needs();
        let found: usize = needs.values().map(BTreeSet::len).sum();
        assert!(found >= modules.0.len() / 2, "{name}: {found} imports in {} modules", modules.0.len());
        if let Some(circle) = circle(&needs) {
            panic!("{name}: {} → {}", circle.join(" → "), circle[0]);
        }
    }
}

#[test]
fn only_the_clock_of_a_library_reads_a_clock() {
    let crates = crates();
    for name in ["delayq-core", "delayq", "delayq-spool"] {
        let modules = crates[name].0.iter();
        let readers =
            modules.filter(|(_, text)| text.contains("Instant::now") || text.contains("SystemTime::now"));
        let others: Vec<String> =
            readers.map(|(module, _)| module.join("::")).filter(|module| module != "clock").collect();
        assert!(others.is_empty(), "{name}: ask the module `clock` in {others:?}");
    }
    assert!(crates["delayq"].0[&names("clock")].contains("Instant::now"), "it reads both clocks");
}

/// The timer and a consumer that pumps share the folder, which knows no connection.
#[test]
fn scheduling_needs_nothing_else_of_the_library_but_the_clock() {
    let is_inside = |module: &Names| module.first().is_some_and(|first| first == "scheduling");
    let needs = crates()["delayq"].needs().into_iter();
    let inside: BTreeMap<_, _> = needs.filter(|(module, _)| is_inside(module)).collect();
    assert!(inside.len() > 6, "the schedule, the aim, the alarm and the guard are there: {inside:?}");
    for (module, needed) in &inside {
        let is_allowed = |module: &Names| is_inside(module) || *module == names("clock");
        assert!(needed.iter().all(is_allowed), "{}: {needed:?}", module.join("::"));
    }
}

fn names(path: &str) -> Names {
    path.split("::").filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

fn face(root: &str) -> BTreeSet<String> {
    let exports = root.match_indices("pub use ").map(|(at, _)| &root[at + "pub use ".len()..]);
    let exported = exports.flat_map(|rest| leaves(&rest[..rest.find(';').unwrap_or(rest.len())]));
    let modules = root.lines().filter_map(|line| line.strip_prefix("pub mod ")?.strip_suffix(';'));
    exported.map(|(_, name)| name).chain(modules.map(str::to_owned)).collect()
}

#[test]
fn an_application_finds_few_names_at_the_root() {
    let root = &crates()["delayq"].0[&Vec::new()];
    let names = face(root);
    assert!(!root.contains("::*"), "name what is exported");
    assert!(names.contains("Producer") && names.contains("protocol"), "{names:?}");
    assert!(names.len() <= 42, "{}: what services need belongs below protocol: {names:?}", names.len());
}

fn modules(texts: &[(&str, &str)]) -> Modules {
    Modules(texts.iter().map(|(path, text)| (names(path), (*text).to_owned())).collect())
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
    for (name, modules) in crates() {
        let mut counts = BTreeMap::new();
        modules.0.values().for_each(|text| methods(text, &mut counts));
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
    let face = "mod a;\nmod b;\npub use a::A;\n";
    let a = "use crate::{\n    b::{self, B},\n};\npub struct A;\n";
    let c = "fn c() -> super::super::a::A { todo!() }\npub struct C;\n";
    let straight = modules(&[("", face), ("a", a), ("b", "mod c;\npub use c::C;\n"), ("b::c", c)]).needs();
    assert_eq!(straight[&names("a")], BTreeSet::from([names("b")]));
    assert_eq!((circle(&straight), through_the_root(&straight)), (None, Vec::new()));
    // The root hides a circle.
    let through = modules(&[("", face), ("a", a), ("b", "use crate::A;\n")]).needs();
    assert_eq!(circle(&through), Some(vec!["a".to_owned(), "b".to_owned()]));
    let own = modules(&[("", "fn f() {}\n"), ("a", "fn a() { crate::f() }\n")]).needs();
    assert_eq!(through_the_root(&own), ["a"]);
}

#[test]
fn each_way_to_need_a_module_is_found() {
    for (parent, child, circular) in [
        ("mod c;\nuse c::C;\n", "use super::P;\n", true),
        ("mod c;\nfn p() {\n    c::run()\n}\n", "use crate::p::P;\n", true),
        ("pub(crate) mod c;\nuse self::c::C as D;\n", "fn c(p: &super::P) {}\n", true),
        ("mod c;\nuse c::{\n    C,\n};\n", "use crate::p;\nfn c() { p::run() }\n", true),
        ("mod c;\nuse c::C;\n", "/// See [`super::P`].\npub(in crate::p) fn c() {}\n", false),
        (
            "mod c;\nuse c::C;\n",
            "fn c() {}\n\n#[cfg(test)]\nmod tests {\n    use super::super::P;\n}\n",
            false,
        ),
        ("mod c;\npub(super) use c::C;\n", "use super::P;\n", false),
        ("mod c;\npub(super) use c::C;\nfn p(c: C) {}\n", "use super::P;\n", true),
        ("mod c;\npub(super) use c::run;\nfn p() { run() }\n", "use super::P;\n", true),
        ("mod c;\npub(super) use c::run;\nfn p() { self.run() }\n", "use super::P;\n", false),
        ("mod c;\n", "crate::p!(C);\nuse std::super_::P;\n", false),
    ] {
        let needs = modules(&[("", "mod p;\n"), ("p", parent), ("p::c", child)]).needs();
        assert_eq!(circle(&needs).is_some(), circular, "{parent}{child}");
    }
    let brothers =
        [("a", "use crate::b::A;\n"), ("b", "mod c;\npub use c::A;\n"), ("b::c", "use crate::a::B;\n")];
    assert_eq!(circle(&modules(&brothers).needs()), Some(vec!["a".to_owned(), "b::c".to_owned()]));
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
    let mut files = Vec::new();
    ["crates", "bench", "tests/src"].iter().for_each(|folder| rust_files(&root().join(folder), &mut files));
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
