//! A running Redis Cluster: used by one test after another, because a cluster has no databases.
//!
//! The cluster must be empty at first. A function library, which FLUSHALL leaves alone, then marks the cluster as the
//! tests' own, and each test finds it empty.

use super::shared::try_connect;
use crate::remark::this_test;
use redis::{Client, FromRedisValue, RedisResult, Value};
use std::fs::File;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Mutex, MutexGuard, PoisonError};

const MARK: &str =
    "#!lua name=delayq_tests\nredis.register_function('delayq_tests', function() return 1 end)";

const OF_ALL_KEYS: [&str; 3] = ["DBSIZE", "FLUSHDB", "KEYS"];

/// The tests of this process that hold or await the cluster.
static HOLDERS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// The whole cluster. Dropping the value empties and releases the cluster.
#[derive(Debug)]
pub(super) struct GivenCluster {
    masters: Masters,
    holder: String,
    /// Locked while open.
    _lock: File,
}

#[derive(Debug)]
struct Masters {
    urls: Vec<String>,
    /// First slot, last slot, and index of the master of each range.
    slots: Vec<(u16, u16, usize)>,
}

// === impl GivenCluster ===

impl GivenCluster {
    /// Waits until no other test of this machine holds the cluster, and empties it; `None`: this test already holds it.
    pub(super) async fn take(url: &str) -> Option<Self> {
        let holder = this_test();
        {
            let mut holders = holders();
            if holders.contains(&holder) {
                return None;
            }
            holders.push(holder.clone());
        }
        let lock = lock(url).await;
        let masters = Masters::of(url).await;
        masters.claim().await;
        for url in &masters.urls {
            let () = run(url, &["FLUSHALL"]).await.expect("FLUSHALL");
        }
        Some(Self { masters, holder, _lock: lock })
    }

    pub(super) async fn master_of(&self, key: &str) -> RedisResult<&str> {
        let slot: u16 = run(&self.masters.urls[0], &["CLUSTER", "KEYSLOT", key]).await?;
        let has = |(first, last, _): &&(u16, u16, usize)| (*first..=*last).contains(&slot);
        let (_, _, master) = self.masters.slots.iter().find(has).expect("every slot has a master");
        Ok(&self.masters.urls[*master])
    }

    /// Runs a command at the master of its first word with a hash tag; a command [about all keys](OF_ALL_KEYS) at every
    /// master, with the answers summed; and any other at one master.
    pub(super) async fn run<T: FromRedisValue>(&self, words: &[&str]) -> RedisResult<T> {
        if let Some(key) = words.iter().find(|word| word.contains('{')) {
            return run(self.master_of(key).await?, words).await;
        }
        let is_of_all = words.first().is_some_and(|name| OF_ALL_KEYS.contains(name));
        let count = if is_of_all { self.masters.urls.len() } else { 1 };
        let mut whole = Value::Nil;
        for url in &self.masters.urls[..count] {
            whole = match (whole, run(url, words).await?) {
                (Value::Array(list), Value::Array(more)) => Value::Array([list, more].concat()),
                (Value::Int(sum), Value::Int(more)) => Value::Int(sum + more),
                (_, answer) => answer,
            };
        }
        Ok(redis::from_redis_value(whole)?)
    }
}

impl Drop for GivenCluster {
    fn drop(&mut self) {
        for url in &self.masters.urls {
            let flush = || redis::cmd("FLUSHALL").exec(&mut Client::open(url.as_str())?.get_connection()?);
            // The next test flushes as well.
            let _ = flush();
        }
        holders().retain(|test| *test != self.holder);
    }
}

// === impl Masters ===

impl Masters {
    /// According to the first node of the URL.
    async fn of(url: &str) -> Self {
        let rest = url.strip_prefix("redis+cluster://").expect("the URL of a cluster without TLS");
        let (login, nodes) = rest.rsplit_once('@').map_or(("", rest), |(login, nodes)| (login, nodes));
        let login = if login.is_empty() { String::new() } else { format!("{login}@") };
        let first_node = nodes.split([',', '/']).next().unwrap_or_default();
        let ranges: Vec<Vec<Value>> =
            run(&format!("redis://{login}{first_node}"), &["CLUSTER", "SLOTS"]).await.expect("CLUSTER SLOTS");
        let mut masters = Self { urls: Vec::new(), slots: Vec::new() };
        for range in ranges {
            let (first, last): (u16, u16) =
                redis::from_redis_value(Value::Array(range[..2].to_vec())).expect("a range of slots");
            let node: Vec<Value> = redis::from_redis_value(range[2].clone()).expect("a node");
            let (host, port): (Option<String>, u16) =
                redis::from_redis_value(Value::Array(node[..2].to_vec())).expect("an address");
            // A node without a known host has the host of this connection.
            let asked = first_node.rsplit_once(':').map_or(first_node, |(host, _)| host);
            let host = host.as_deref().filter(|host| !host.is_empty()).unwrap_or(asked);
            let url = format!("redis://{login}{host}:{port}");
            let known = masters.urls.iter().position(|other| *other == url);
            let master = known.unwrap_or_else(|| {
                masters.urls.push(url);
                masters.urls.len() - 1
            });
            masters.slots.push((first, last, master));
        }
        assert!(!masters.urls.is_empty(), "the given Redis Cluster has slots");
        masters
    }

    /// Marks the cluster as the tests' own.
    async fn claim(&self) {
        for url in &self.urls {
            let list = ["FUNCTION", "LIST", "LIBRARYNAME", "delayq_tests"];
            let marks: Vec<Value> = run(url, &list).await.expect("FUNCTION LIST");
            if marks.is_empty() {
                let keys: u64 = run(url, &["DBSIZE"]).await.expect("DBSIZE");
                assert!(
                    keys == 0,
                    "the given Redis Cluster has keys that are not of tests: give an empty one"
                );
                let _: String = run(url, &["FUNCTION", "LOAD", MARK]).await.expect("FUNCTION LOAD");
            }
        }
    }
}

/// Checks that all keys belong to tests: for tests that keep to their own namespaces.
pub(crate) async fn claim(url: &str) {
    let _lock = lock(url).await;
    Masters::of(url).await.claim().await;
}

/// One lock per cluster for all processes of this machine.
async fn lock(url: &str) -> File {
    let mut hasher = DefaultHasher::new();
    url.hash(&mut hasher);
    let path = std::env::temp_dir().join(format!("delayq-tests-{:016x}.lock", hasher.finish()));
    let locked = tokio::task::spawn_blocking(move || {
        let file = File::create(path)?;
        file.lock().map(|()| file)
    });
    locked.await.expect("it does not panic").expect("a folder for temporary files has a lock")
}

fn holders() -> MutexGuard<'static, Vec<String>> {
    HOLDERS.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn run<T: FromRedisValue>(url: &str, words: &[&str]) -> RedisResult<T> {
    let (name, args) = words.split_first().expect("a command has a name");
    redis::cmd(name).arg(args).query_async(&mut try_connect(url).await?).await
}
