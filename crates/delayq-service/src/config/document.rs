//! The TOML document of a configuration: every key knows its line or environment variable.
//!
//! A position in the file is its byte offset. Positions beyond the end of the file stand for the environment's
//! variables, two for each, so that a serde fault leads back to its source by the span alone.

use super::environment::Environment;
use serde::de::DeserializeOwned;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue, Deserializer};

#[derive(Clone, Debug)]
struct TomlNode {
    path: String,
    key: Range<usize>,
    value: Range<usize>,
}

/// The file, overridden by the environment.
pub(super) struct Document<'i> {
    tree: Spanned<DeTable<'i>>,
    nodes: Vec<TomlNode>,
    /// Paths of the removed list elements: later elements have moved up.
    removed_items: Vec<String>,
    text: &'i str,
    environment: &'i Environment,
}

pub(super) struct Misfit {
    pub(super) span: Option<Range<usize>>,
    pub(super) message: String,
}

/// The source of a span.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Location {
    /// A line of the file, from 1.
    Line(usize),
    /// A variable of the environment, by name.
    Variable(String),
    /// No source: the fault concerns a default, or the whole.
    Whole,
}

// === impl Document ===

impl<'i> Document<'i> {
    /// Returns unreadable values too.
    pub(super) fn parse(text: &'i str, environment: &'i Environment) -> (Self, Vec<Misfit>) {
        let (tree, errors) = DeTable::parse_recoverable(text);
        let mut misfits: Vec<Misfit> = errors.iter().map(Misfit::from).collect();
        let mut document = Self { tree, nodes: Vec::new(), removed_items: Vec::new(), text, environment };
        for index in 0..environment.variables().len() {
            misfits.extend(document.overlay(index).err());
        }
        index_table(document.tree.get_ref(), "", &mut document.nodes);
        (document, misfits)
    }

    /// A fault has the span of its key.
    pub(super) fn read<C: DeserializeOwned>(&self) -> Result<C, Misfit> {
        C::deserialize(Deserializer::from(self.tree.clone())).map_err(|error| Misfit::from(&error))
    }

    pub(super) fn path_at(&self, span: &Range<usize>) -> Option<&str> {
        self.node_at(span).map(|node| node.path.as_str())
    }

    pub(super) fn location_of(&self, span: &Range<usize>) -> Location {
        match self.variable_at(span) {
            Some(index) => Location::Variable(self.environment.variables()[index].name.clone()),
            None => Location::Line(1 + self.text[..span.start.min(self.text.len())].matches('\n').count()),
        }
    }

    /// By path.
    pub(super) fn locations(&self) -> BTreeMap<String, Location> {
        self.nodes.iter().map(|node| (node.path.clone(), self.location_of(&node.key))).collect()
    }

    /// Removes the innermost key around a span. False if there is no key, or a removed one.
    pub(super) fn remove(&mut self, span: &Range<usize>) -> bool {
        let Some(node) = self.node_at(span).cloned() else { return false };
        let removed = remove_from_table(self.tree.get_mut(), &node);
        if removed && node.path.ends_with(']') {
            self.removed_items.push(node.path);
        }
        removed
    }

    /// Translates a path of the remaining document into the written document, which includes the removed list elements.
    pub(super) fn path_as_written(&self, path: &str) -> String {
        as_written(path, &self.removed_items)
    }

    /// Removes top-level tables by name.
    pub(super) fn remove_sections(&mut self, doomed: impl Fn(&str) -> bool) {
        keep_in_table(self.tree.get_mut(), |key, _| !doomed(key.get_ref()));
    }

    /// Reads a variable's value as a string after all, if the span was read as a number, boolean or date.
    ///
    /// So `DELAYQ__REDIS__PASSWORD=1234` is a password and `DELAYQ__DEPLOYMENT__SHARDS=16` a number.
    pub(super) fn reread_as_string(&mut self, span: &Range<usize>) -> Option<usize> {
        let index = self.variable_at(span)?;
        let variable = &self.environment.variables()[index];
        let value = value_at(self.tree.get_mut(), &variable.path)?;
        let scalar = !value.get_ref().is_str() && !value.get_ref().is_table() && !value.get_ref().is_array();
        let text = variable.text.as_deref().ok().filter(|_| scalar)?;
        *value = Spanned::new(value.span(), DeValue::String(Cow::Borrowed(text)));
        Some(index)
    }

    pub(super) fn variable_at(&self, span: &Range<usize>) -> Option<usize> {
        let behind = span.start.checked_sub(self.text.len() + 1)?;
        Some(behind / 2).filter(|index| *index < self.environment.variables().len())
    }

    fn node_at(&self, span: &Range<usize>) -> Option<&TomlNode> {
        let within = |outer: &Range<usize>| outer.start <= span.start && span.end <= outer.end;
        let tightness = |node: &&TomlNode| {
            let length = |range: &Range<usize>| if within(range) { range.len() } else { usize::MAX };
            length(&node.key).min(length(&node.value))
        };
        // Of equals the last is the innermost: the index lists a table before its contents.
        self.nodes.iter().filter(|node| within(&node.key) || within(&node.value)).rev().min_by_key(tightness)
    }

    fn overlay(&mut self, index: usize) -> Result<(), Misfit> {
        let start = self.text.len() + 1 + 2 * index;
        let span = start..start + 1;
        let variable = &self.environment.variables()[index];
        let misfit = |message: &str| Misfit { span: Some(span.clone()), message: message.to_owned() };
        let text = variable.text.as_deref().map_err(|message| misfit(message))?;
        let plain = || DeValue::String(Cow::Borrowed(text));
        let mut value = DeValue::parse(text).map_or_else(|_| plain(), Spanned::into_inner);
        restamp(&mut value, &span);

        let (last, sections) = variable.path.split_last().expect("a split string has at least one part");
        let stamped = |key: &'i str| Spanned::new(span.clone(), Cow::Borrowed(key));
        let mut table = self.tree.get_mut();
        for section in sections {
            let inner = table
                .entry(stamped(section))
                .or_insert_with(|| Spanned::new(span.clone(), DeValue::Table(DeTable::new())));
            table = match inner.get_mut() {
                DeValue::Table(table) => table,
                _ => {
                    return Err(misfit(&format!(
                        "`{section}` holds no keys in the file: it is a plain value or a list"
                    )));
                }
            };
        }
        // The old key would keep its position in the file.
        table.remove(last.as_str());
        table.insert(stamped(last), Spanned::new(span.clone(), value));
        Ok(())
    }
}

// === impl Misfit ===

impl From<&toml::de::Error> for Misfit {
    fn from(error: &toml::de::Error) -> Self {
        // `message` alone: the error's own display quotes the line, which may hold a secret.
        Self { span: error.span(), message: without_value(error.message()) }
    }
}

/// serde's type error without the value: `brokers = "user:password@host"` is a string with a secret where a list is
/// expected.
fn without_value(message: &str) -> String {
    let refused = message.strip_prefix("invalid type: ").and_then(|rest| rest.rsplit_once(", expected "));
    let Some((found, expected)) = refused else { return message.to_owned() };
    let kind = found.split(['"', '`']).next().unwrap_or_default().trim_end();
    format!("invalid type: {}, expected {}", in_words(kind), in_words(expected))
}

/// A Rust or serde type in the words of TOML.
fn in_words(kind: &str) -> &str {
    match kind {
        "u8" | "u16" | "u32" | "u64" | "usize" | "i32" | "i64" | "integer" => "a whole number",
        "f32" | "f64" | "floating point" => "a number",
        "bool" | "boolean" | "a boolean" => "true or false",
        "sequence" | "a sequence" => "a list",
        "map" | "a map" => "a section",
        "string" => "a string",
        kind => kind,
    }
}

fn as_written(path: &str, removed_items: &[String]) -> String {
    let mut written = String::new();
    for piece in path.split_inclusive(']') {
        let item = piece.strip_suffix(']').and_then(|item| item.rsplit_once('['));
        let Some((list, Ok(index))) = item.map(|(list, index)| (list, index.parse::<usize>())) else {
            written.push_str(piece);
            continue;
        };
        written.push_str(list);
        let kept =
            (0..).map(|index| format!("{written}[{index}]")).filter(|item| !removed_items.contains(item));
        written = kept.take(index + 1).last().expect("an endless list has an element at every index");
    }
    written
}

fn index_table(table: &DeTable<'_>, prefix: &str, nodes: &mut Vec<TomlNode>) {
    for (key, value) in table {
        let path =
            if prefix.is_empty() { key.get_ref().to_string() } else { format!("{prefix}.{}", key.get_ref()) };
        index_value(value, &path, key.span(), nodes);
    }
}

fn index_value(value: &Spanned<DeValue<'_>>, path: &str, key: Range<usize>, nodes: &mut Vec<TomlNode>) {
    nodes.push(TomlNode { path: path.to_owned(), key, value: value.span() });
    match value.get_ref() {
        DeValue::Table(table) => index_table(table, path, nodes),
        DeValue::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                index_value(item, &format!("{path}[{index}]"), item.span(), nodes);
            }
        }
        _ => {}
    }
}

fn keep_in_table<'i>(
    table: &mut DeTable<'i>,
    keep: impl Fn(&Spanned<Cow<'i, str>>, &Spanned<DeValue<'i>>) -> bool,
) {
    *table = std::mem::take(table).into_iter().filter(|(key, value)| keep(key, value)).collect();
}

fn remove_from_table(table: &mut DeTable<'_>, node: &TomlNode) -> bool {
    let before = table.len();
    keep_in_table(table, |key, value| key.span() != node.key || value.span() != node.value);
    let gone = table.len() < before;
    gone || table.iter_mut().any(|(_, value)| remove_from_value(value.get_mut(), node))
}

fn remove_from_value(value: &mut DeValue<'_>, node: &TomlNode) -> bool {
    match value {
        DeValue::Table(table) => remove_from_table(table, node),
        DeValue::Array(items) => {
            let before = items.len();
            let kept = std::mem::replace(items, [].into_iter().collect()).into_iter();
            *items = kept.filter(|item| item.span() != node.key || item.span() != node.value).collect();
            items.len() < before || items.iter_mut().any(|item| remove_from_value(item.get_mut(), node))
        }
        _ => false,
    }
}

fn value_at<'t, 'i>(table: &'t mut DeTable<'i>, path: &[String]) -> Option<&'t mut Spanned<DeValue<'i>>> {
    let (first, rest) = path.split_first()?;
    let value = table.get_mut(first.as_str())?;
    if rest.is_empty() {
        return Some(value);
    }
    match value.get_mut() {
        DeValue::Table(table) => value_at(table, rest),
        _ => None,
    }
}

/// Gives everything in a value the position of its variable.
fn restamp(value: &mut DeValue<'_>, span: &Range<usize>) {
    match value {
        DeValue::Table(table) => {
            let entries = std::mem::take(table);
            for (key, inner) in entries {
                let mut inner = inner.into_inner();
                restamp(&mut inner, span);
                table.insert(Spanned::new(span.clone(), key.into_inner()), Spanned::new(span.clone(), inner));
            }
        }
        DeValue::Array(items) => {
            for item in items.iter_mut() {
                let mut inner = std::mem::replace(item.get_mut(), DeValue::Boolean(false));
                restamp(&mut inner, span);
                *item = Spanned::new(span.clone(), inner);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::{as_written, without_value};

    #[test]
    fn a_value_of_the_wrong_type_is_not_repeated() {
        for (message, expected) in [
            (
                r#"invalid type: string "u:hunter2@h", expected a sequence"#,
                "invalid type: a string, expected a list",
            ),
            (
                r#"invalid type: string "a, expected b", expected u16"#,
                "invalid type: a string, expected a whole number",
            ),
            (
                "invalid type: integer `8472947`, expected a string",
                "invalid type: a whole number, expected a string",
            ),
            ("invalid type: map, expected a string", "invalid type: a section, expected a string"),
            ("unknown field `a`, expected `b`", "unknown field `a`, expected `b`"),
        ] {
            assert_eq!(without_value(message), expected);
        }
    }

    #[test]
    fn an_element_is_named_by_the_place_it_was_written_at() {
        let removed = ["a[0]", "a[2].b[1]"].map(str::to_owned);
        for (read, written) in [
            ("x.y", "x.y"),
            ("a[0].c", "a[1].c"),
            ("a[1].b[0]", "a[2].b[0]"),
            ("a[1].b[1].c", "a[2].b[2].c"),
            ("a[0].b[1]", "a[1].b[1]"),
        ] {
            assert_eq!(as_written(read, &removed), written);
        }
    }
}
