//! The configuration that a user gives to `delayq up`: every section holds except the servers, which belong to `up`.

use crate::failure::file;
use crate::whole::WholeConfig;
use delayq::{Namespace, ShardCount};
use delayq_service::Fault;
use delayq_service::config::{Environment, LogConfig, Source, load};
use std::path::Path;
use toml::{Table, Value};

/// The beginning of every configuration that `up` writes.
pub(super) const WRITTEN_BY_UP: &str = "# Written by `delayq up`";

/// A configuration without faults, in written form.
#[derive(Clone, Debug)]
pub struct Given {
    table: Table,
    whole: WholeConfig,
}

// === impl Given ===

impl Given {
    /// Reads the file. `None` for a file that `up` wrote for the other commands, which `DELAYQ_CONFIG` may name, and
    /// for `own`, the file that `up` will write: neither asks for anything.
    ///
    /// # Errors
    /// Every fault of the file at once.
    pub fn read(path: &Path, own: &Path) -> Result<Option<Self>, Fault> {
        let text = match std::fs::read_to_string(path) {
            Ok(text) if text.starts_with(WRITTEN_BY_UP) => return Ok(None),
            Ok(text) => text,
            Err(_) if !path.exists() && std::path::absolute(path).ok() == std::path::absolute(own).ok() => {
                return Ok(None);
            }
            Err(error) => return Err(file(path, "read", error)),
        };
        let source = Source::text(path.display().to_string(), text.as_str());
        let whole = load::<WholeConfig>(&source, &Environment::empty())?.config;
        let table = text.parse().expect("a loaded configuration is valid TOML");
        Ok(Some(Self { table, whole }))
    }

    /// The log settings, if the file has any.
    pub fn log(&self) -> Option<LogConfig> {
        self.table.contains_key("log").then(|| self.whole.log.clone())
    }

    /// The namespace, if the file has any.
    pub fn namespace(&self) -> Option<Namespace> {
        self.says("namespace").then(|| self.whole.deployment.namespace.clone())
    }

    /// The number of shards, if the file has any.
    pub fn shards(&self) -> Option<ShardCount> {
        self.says("shards").then_some(self.whole.deployment.shards)
    }

    fn says(&self, key: &str) -> bool {
        self.table.get("deployment").and_then(|deployment| deployment.get(key)).is_some()
    }

    /// Lays the file over a configuration; the deployment and the servers stay unchanged. Routes come behind the
    /// existing routes.
    pub(super) fn lay_over(&self, base: &str) -> String {
        let mut table: Table = base.parse().expect("the written configuration is valid TOML");
        let own = ["deployment", "redis", "etcd"];
        let given = self.table.iter().filter(|(name, _)| !own.contains(&name.as_str()));
        lay_over(&mut table, given.map(|(name, value)| (name.clone(), value.clone())));
        table.to_string()
    }
}

fn lay_over(table: &mut Table, over: impl IntoIterator<Item = (String, Value)>) {
    for (name, value) in over {
        match (table.get_mut(&name), value) {
            (Some(Value::Table(inner)), Value::Table(value)) => lay_over(inner, value),
            (Some(Value::Array(items)), Value::Array(mut more)) if name == "routes" => {
                items.append(&mut more);
            }
            (_, value) => drop(table.insert(name, value)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(text: &str) -> Option<Given> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("given.toml");
        std::fs::write(&path, text).unwrap();
        Given::read(&path, Path::new("other/delayq.toml")).unwrap()
    }

    #[test]
    fn all_of_a_given_file_holds_but_its_servers() {
        let given = given(
            "[deployment]\nshards = 8\n[redis]\nurl = \"redis://elsewhere:1\"\n[timer]\nbatch = 7\n\
             [sinks.out.file]\ndir = \"/tmp\"\n[[routes]]\ntopic = \"b\"\nsink = \"out\"\n",
        )
        .unwrap();
        assert_eq!((given.namespace(), given.shards()), (None, ShardCount::new(8).ok()));
        assert_eq!(given.log(), None);
        let base = "[redis]\nurl = \"unix:///s\"\n[timer]\nname = \"up\"\n[[routes]]\ntopic = \"a\"\n";
        let merged: Table = given.lay_over(base).parse().unwrap();
        assert_eq!(merged["redis"]["url"].as_str(), Some("unix:///s"));
        assert_eq!(
            (merged["timer"]["name"].as_str(), merged["timer"]["batch"].as_integer()),
            (Some("up"), Some(7))
        );
        let topics =
            merged["routes"].as_array().unwrap().iter().map(|route| route["topic"].as_str().unwrap());
        assert_eq!(topics.collect::<Vec<_>>(), ["a", "b"]);
    }

    #[test]
    fn a_file_that_up_wrote_or_will_write_asks_for_nothing() {
        assert!(given(&format!("{WRITTEN_BY_UP}\n[redis]\n")).is_none());
        let dir = tempfile::tempdir().unwrap();
        let own = dir.path().join(".delayq/delayq.toml");
        assert!(Given::read(&own, &own).unwrap().is_none());
        assert!(Given::read(&dir.path().join("missing.toml"), &own).is_err());
    }
}
