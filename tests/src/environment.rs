//! A test run's settings from the environment: running or installed servers, and the strictness of time bounds.

use std::path::{Path, PathBuf};

/// How clients reach a Redis.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RedisShape {
    /// By address.
    #[default]
    Plain,
    /// As a Redis Cluster, by the addresses of some nodes.
    Cluster,
    /// By sentinels.
    Sentinel,
}

// === impl RedisShape ===

impl RedisShape {
    pub(crate) fn of(url: &str) -> Self {
        match url.split_once("://") {
            Some(("redis+cluster", _)) => Self::Cluster,
            Some(("redis+sentinel", _)) => Self::Sentinel,
            _ => Self::Plain,
        }
    }
}

/// The Redis of `DELAYQ_TEST_REDIS_URL`, in place of a private one; `None`: unset, or only a shape.
///
/// Existing data is not cleared: each test keeps to its own data.
#[must_use]
pub fn given_redis_url() -> Option<String> {
    redis_url().filter(|url| !url.ends_with("://"))
}

/// The shape of every Redis in tests: the shape of `DELAYQ_TEST_REDIS_URL`, which may be a scheme alone, such as
/// `redis+cluster://`.
#[must_use]
pub fn redis_shape() -> RedisShape {
    redis_url().as_deref().map(RedisShape::of).unwrap_or_default()
}

#[allow(clippy::disallowed_methods, reason = "the module that reads the environment")]
fn redis_url() -> Option<String> {
    std::env::var("DELAYQ_TEST_REDIS_URL").ok().filter(|url| !url.is_empty())
}

/// The program of every private Redis and sentinel, from `DELAYQ_TEST_REDIS_SERVER`: a `valkey-server`, for example, or
/// another version.
#[must_use]
#[allow(clippy::disallowed_methods, reason = "the module that reads the environment")]
pub fn redis_server() -> PathBuf {
    let given = std::env::var_os("DELAYQ_TEST_REDIS_SERVER").filter(|path| !path.is_empty());
    given.map_or_else(|| "redis-server".into(), Into::into)
}

/// The reason for skipping a test that needs a Valkey.
pub const NO_VALKEY: &str =
    "no valkey-server on the PATH, no DELAYQ_TEST_VALKEY, and scripts/valkey.sh has brought none";

/// A server with WAITAOF (Valkey, or Redis 7.2 and newer): the path in `DELAYQ_TEST_VALKEY`, the `valkey-server` on the
/// PATH, or the copy that `scripts/valkey.sh` has fetched.
#[must_use]
#[allow(clippy::disallowed_methods, reason = "the module that reads the environment")]
pub fn valkey_server() -> Option<PathBuf> {
    if let Some(path) = std::env::var_os("DELAYQ_TEST_VALKEY").filter(|path| !path.is_empty()) {
        return Some(path.into());
    }
    let folders = std::env::var_os("PATH")?;
    let on_the_path = std::env::split_paths(&folders).map(|folder| folder.join("valkey-server"));
    let brought = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/valkey/valkey-server");
    on_the_path.chain([brought]).find(|path| path.is_file())
}

/// The etcd endpoints of `DELAYQ_TEST_ETCD_ENDPOINTS`, separated by commas, in place of a private etcd.
#[must_use]
#[allow(clippy::disallowed_methods, reason = "the module that reads the environment")]
pub fn given_etcd_endpoints() -> Option<Vec<String>> {
    let list = std::env::var("DELAYQ_TEST_ETCD_ENDPOINTS").ok()?;
    let endpoints: Vec<String> =
        list.split(',').map(str::trim).filter(|e| !e.is_empty()).map(str::to_owned).collect();
    (!endpoints.is_empty()).then_some(endpoints)
}

/// Number of failovers in the tests of confirmed writes, from `DELAYQ_TEST_FAILOVERS`; `None`: a few.
#[must_use]
pub fn failovers() -> Option<usize> {
    count("DELAYQ_TEST_FAILOVERS")
}

/// Number of outages in the long form of their tests, from `DELAYQ_TEST_OUTAGES`; `None`: the short form.
#[must_use]
pub fn outages() -> Option<usize> {
    count("DELAYQ_TEST_OUTAGES")
}

/// Number of concurrent runs of each shape that share these outages, from `DELAYQ_TEST_OUTAGES_AT_ONCE`; default 1.
#[must_use]
pub fn outages_at_once() -> usize {
    let at_once = count("DELAYQ_TEST_OUTAGES_AT_ONCE").unwrap_or(1);
    assert!(at_once > 0, "DELAYQ_TEST_OUTAGES_AT_ONCE is 0: at least one run has the outages");
    at_once
}

/// `full` with `DELAYQ_TEST_LONG` (`make test-long`), for runs that may take an hour; otherwise `short`, which still shows the
/// claim.
#[must_use]
#[allow(clippy::disallowed_methods, reason = "the module that reads the environment")]
pub fn at_length<T>(short: T, full: T) -> T {
    if std::env::var_os("DELAYQ_TEST_LONG").is_some_and(|asked| !asked.is_empty()) { full } else { short }
}

#[allow(clippy::disallowed_methods, reason = "the module that reads the environment")]
fn count(variable: &str) -> Option<usize> {
    let count = std::env::var(variable).ok().filter(|count| !count.is_empty())?;
    Some(count.parse().unwrap_or_else(|e| panic!("{variable} is {count:?}: {e}")))
}

/// True if a test fails when the machine was too busy to judge its times, from `DELAYQ_TEST_TIMING=strict`.
#[must_use]
#[allow(clippy::disallowed_methods, reason = "the module that reads the environment")]
pub fn strict_timing() -> bool {
    std::env::var("DELAYQ_TEST_TIMING").as_deref() == Ok("strict")
}
