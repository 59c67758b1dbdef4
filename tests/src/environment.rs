//! What a test run reads from its environment: servers that are already running or installed, and how strictly times are
//! judged.

use std::path::PathBuf;

/// The Redis to use in place of a private one, from `DELAYQ_TEST_REDIS_URL`.
///
/// Its data is not cleared: each test keeps to its own namespace.
#[must_use]
#[allow(clippy::disallowed_methods, reason = "the module that reads the environment")]
pub fn given_redis_url() -> Option<String> {
    std::env::var("DELAYQ_TEST_REDIS_URL").ok().filter(|url| !url.is_empty())
}

/// A server with WAITAOF (Valkey, or Redis 7.2 and newer): the path in `DELAYQ_TEST_VALKEY`, or else the `valkey-server` on the
/// PATH.
#[must_use]
#[allow(clippy::disallowed_methods, reason = "the module that reads the environment")]
pub fn valkey_server() -> Option<PathBuf> {
    if let Some(path) = std::env::var_os("DELAYQ_TEST_VALKEY").filter(|path| !path.is_empty()) {
        return Some(path.into());
    }
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders).map(|folder| folder.join("valkey-server")).find(|path| path.is_file())
}

/// The etcd endpoints to use in place of a private etcd, from `DELAYQ_TEST_ETCD_ENDPOINTS`, separated by commas.
#[must_use]
#[allow(clippy::disallowed_methods, reason = "the module that reads the environment")]
pub fn given_etcd_endpoints() -> Option<Vec<String>> {
    let list = std::env::var("DELAYQ_TEST_ETCD_ENDPOINTS").ok()?;
    let endpoints: Vec<String> =
        list.split(',').map(str::trim).filter(|e| !e.is_empty()).map(str::to_owned).collect();
    (!endpoints.is_empty()).then_some(endpoints)
}

/// Whether a test fails if the machine was too busy to judge its times, from `DELAYQ_TEST_TIMING=strict`.
#[must_use]
#[allow(clippy::disallowed_methods, reason = "the module that reads the environment")]
pub fn strict_timing() -> bool {
    std::env::var("DELAYQ_TEST_TIMING").as_deref() == Ok("strict")
}
