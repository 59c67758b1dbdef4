//! The modules of one crate, and the modules that each of them needs.

use crate::structure::rust_files;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// A path of names inside a crate, such as the path of a module; empty: the crate's root.
pub(super) type Names = Vec<String>;

/// The modules of one crate, with their text.
pub(super) struct Modules(pub(super) BTreeMap<Names, String>);

/// The modules that each module needs.
pub(super) type Needs = BTreeMap<Names, BTreeSet<Names>>;

/// The code of a module without tests, comments and imports; and the imports.
#[derive(Default)]
struct Code {
    rest: String,
    children: BTreeSet<String>,
    /// The path of each name that the module imports from its crate.
    imports: BTreeMap<String, Names>,
    /// The imported names that other modules may import from this module.
    passed_on: BTreeSet<String>,
}

// === impl Modules ===

impl Modules {
    /// Reads the sources of a crate.
    pub(super) fn of(src: &Path) -> Self {
        let mut files = Vec::new();
        rust_files(src, &mut files);
        let module = |file: PathBuf| {
            let path = file.strip_prefix(src).unwrap().with_extension("");
            let path: Names = path.iter().map(|part| part.to_string_lossy().into_owned()).collect();
            (if path == ["lib"] { Vec::new() } else { path }, fs::read_to_string(&file).unwrap())
        };
        let modules = files.into_iter().map(module);
        Self(modules.filter(|(module, _)| module.last().is_none_or(|name| name != "tests")).collect())
    }

    /// The modules that each module needs: imports and full paths, each followed to the module that defines the name. An
    /// import that is only passed on is not needed, nor is the module with a method of a type that another one defines.
    pub(super) fn needs(&self) -> Needs {
        let codes: BTreeMap<&[String], Code> =
            self.0.iter().map(|(module, text)| (module.as_slice(), Code::of(module, text))).collect();
        let needs = codes.iter().filter(|(module, _)| !module.is_empty()).map(|(&module, code)| {
            let definers = code.used(module).into_iter().map(|path| self.definer(&codes, path));
            (module.to_vec(), definers.filter(|definer| definer != module).collect())
        });
        needs.collect()
    }

    /// The module that defines the name at the end of a path.
    fn definer(&self, codes: &BTreeMap<&[String], Code>, mut path: Names) -> Names {
        loop {
            let length = (0..=path.len()).rev().find(|&length| self.0.contains_key(&path[..length]));
            let (module, names) = path.split_at(length.unwrap_or(0));
            let passed_on = names.split_first().and_then(|(name, inside)| {
                let code = codes.get(module).filter(|code| code.passed_on.contains(name))?;
                Some(code.imports[name].iter().chain(inside).cloned().collect())
            });
            match passed_on {
                None => return module.to_vec(),
                Some(definition) => path = definition,
            }
        }
    }
}

// === impl Code ===

impl Code {
    fn of(module: &[String], text: &str) -> Self {
        let text = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
        let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.starts_with("//")).collect();
        let children = lines.iter().filter_map(|line| declared(line.strip_suffix(';')?, "mod "));
        let mut code =
            Self { children: children.map(|(_, child)| child.to_owned()).collect(), ..Self::default() };
        let mut import: Option<(bool, String)> = None;
        for line in lines {
            match (&mut import, declared(line, "use ")) {
                (Some((_, tree)), _) => *tree += line,
                (None, Some((public, tree))) => import = Some((public, tree.to_owned())),
                (None, None) => code.rest += &format!("{line}\n"),
            }
            if let Some((public, tree)) = import.take_if(|(_, tree)| tree.ends_with(';')) {
                code.import(module, public, &tree);
            }
        }
        code
    }

    fn import(&mut self, module: &[String], public: bool, tree: &str) {
        for (path, name) in leaves(tree.trim_end_matches(';')) {
            let Some(path) = self.inside(module, &path) else { continue };
            if public {
                self.passed_on.insert(name.clone());
            }
            self.imports.insert(name, path);
        }
    }

    /// The path inside the crate, as seen from the module; `None`: of another crate.
    fn inside(&self, module: &[String], path: &[String]) -> Option<Names> {
        let supers = path.iter().take_while(|name| *name == "super").count();
        let (from, names) = match path.first()?.as_str() {
            "crate" => (&module[..0], &path[1..]),
            "self" => (module, &path[1..]),
            "super" => (&module[..module.len() - supers], &path[supers..]),
            child if self.children.contains(child) => (module, path),
            _ => return None,
        };
        Some(from.iter().chain(names).cloned().collect())
    }

    /// The paths that the module uses.
    fn used(&self, module: &[String]) -> Vec<Names> {
        let imported = self.imports.iter();
        let imported =
            imported.filter(|(name, _)| !self.passed_on.contains(*name) || self.names_itself(name));
        let written = full_paths(&self.rest).into_iter().filter_map(|path| {
            let imported = self.imports.get(&path[0]);
            let imported = imported.map(|start| start.iter().chain(&path[1..]).cloned().collect());
            imported.or_else(|| self.inside(module, &path))
        });
        imported.map(|(_, path)| path.clone()).chain(written).collect()
    }

    /// True if the module itself uses a name that it passes on: a type, or a function that it calls.
    fn names_itself(&self, name: &str) -> bool {
        let is_of_word = |c: char| c.is_alphanumeric() || c == '_';
        self.rest.match_indices(name).any(|(at, _)| {
            let (before, after) = (&self.rest[..at], &self.rest[at + name.len()..]);
            let is_used = name.starts_with(char::is_uppercase) || after.starts_with('(');
            let is_other = before.ends_with(is_of_word) || before.ends_with('.') || before.ends_with("fn ");
            is_used && !is_other && !after.starts_with(is_of_word)
        })
    }
}

/// The rest of a declaration such as `pub(super) mod name` after the keyword, and whether the declaration has a visibility.
fn declared<'l>(line: &'l str, keyword: &str) -> Option<(bool, &'l str)> {
    let (visibility, rest) = line.split_once(keyword)?;
    let visibility = visibility.trim();
    let is_one = visibility.is_empty() || visibility == "pub" || visibility.starts_with("pub(");
    is_one.then_some((!visibility.is_empty(), rest))
}

/// The paths in code without imports. Paths of visibilities and of macros are left out.
fn full_paths(code: &str) -> Vec<Names> {
    let mut pieces = code.split("pub(in ");
    let first = pieces.next().unwrap_or_default();
    let visible = pieces.map(|piece| piece.split_once(')').map_or("", |(_, rest)| rest));
    let words = [first]
        .into_iter()
        .chain(visible)
        .flat_map(|piece| piece.split(|c: char| !c.is_alphanumeric() && !['_', ':', '$', '!'].contains(&c)));
    let paths = words.filter(|word| word.contains("::") && !word.starts_with('$') && !word.ends_with('!'));
    let names = paths.map(|path| path.trim_matches(['!', ':']).split("::").map(str::to_owned).collect());
    names.collect()
}

/// The path of each leaf of an import, and the name by which the module knows the leaf.
pub(super) fn leaves(tree: &str) -> Vec<(Names, String)> {
    let mut found = Vec::new();
    expand(&[], tree, &mut found);
    found
}

fn expand(inside: &[String], tree: &str, found: &mut Vec<(Names, String)>) {
    let Some((prefix, branches)) = tree.split_once('{') else {
        let (path, alias) =
            tree.trim().split_once(" as ").map_or((tree.trim(), None), |(path, alias)| (path, Some(alias)));
        let path = path.split("::").filter(|name| *name != "self" || inside.is_empty()).map(str::to_owned);
        let path: Names = inside.iter().cloned().chain(path).collect();
        let name = alias.map(str::to_owned).or_else(|| path.last().cloned()).unwrap_or_default();
        return found.push((path, name));
    };
    let prefix = prefix.trim().split("::").filter(|name| !name.is_empty()).map(str::to_owned);
    let inside: Names = inside.iter().cloned().chain(prefix).collect();
    let branches = &branches[..branches.rfind('}').unwrap_or(branches.len())];
    let mut depth = 0;
    let split = |c: char| {
        depth += i32::from(c == '{') - i32::from(c == '}');
        c == ',' && depth == 0
    };
    let branches: Vec<&str> = branches.split(split).filter(|branch| !branch.trim().is_empty()).collect();
    branches.into_iter().for_each(|branch| expand(&inside, branch, found));
}

/// A circle of modules that need each other.
pub(super) fn circle(needs: &Needs) -> Option<Vec<String>> {
    let mut left = needs.clone();
    loop {
        let free: Vec<Names> = left
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
