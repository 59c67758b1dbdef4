//! Finds the deployments in a Redis.

use super::Admin;
use crate::admin::key_scan::KeyScan;
use crate::error::Error;
use delayq_core::id::Namespace;
use std::collections::BTreeSet;

/// Keys that Redis scans in one step, and the maximum number of steps: a million keys in all.
const A_STEP: usize = 5000;
const STEPS: usize = 200;

// === impl Admin ===

impl Admin {
    /// Returns the namespaces of all deployments in this Redis, regardless of the client's namespace. Among many
    /// millions of keys some namespaces may be missing.
    ///
    /// # Errors
    /// Redis cannot be used, or denies SCAN.
    pub async fn namespaces(&self) -> Result<Vec<Namespace>, Error> {
        let (mut found, mut scan) = (BTreeSet::new(), KeyScan::new("{*:0}:meta".to_owned(), A_STEP));
        for _ in 0..STEPS {
            let keys = scan.next(self.client.calls.nodes()).await?;
            found.extend(keys.iter().filter_map(|key| namespace_of(key)));
            if scan.is_over() {
                break;
            }
        }
        Ok(found.into_iter().collect())
    }
}

/// Returns the namespace in the key of a first shard's registry.
fn namespace_of(key: &[u8]) -> Option<Namespace> {
    let name = key.strip_prefix(b"{")?.strip_suffix(b":0}:meta")?;
    Namespace::new(std::str::from_utf8(name).ok()?).ok()
}
