//! Which deployments a Redis holds.

use super::Admin;
use crate::error::Error;
use delayq_core::id::Namespace;
use std::collections::BTreeSet;

/// Keys that Redis scans in one step, and how many steps one look takes at most: a million keys.
const A_STEP: usize = 5000;
const STEPS: usize = 200;

// === impl Admin ===

impl Admin {
    /// The namespaces of the deployments in this Redis, whichever its own is. Among many millions of keys, and in a
    /// cluster, some may be missing.
    ///
    /// # Errors
    /// Redis cannot be used, or denies SCAN.
    pub async fn namespaces(&self) -> Result<Vec<Namespace>, Error> {
        let (mut found, mut cursor) = (BTreeSet::new(), 0_u64);
        for _ in 0..STEPS {
            let mut scan = redis::cmd("SCAN");
            scan.arg(cursor).arg("MATCH").arg("{*:0}:meta").arg("COUNT").arg(A_STEP);
            let (next, keys): (u64, Vec<Vec<u8>>) = self.client.calls.link().query("SCAN", &scan).await?;
            found.extend(keys.iter().filter_map(|key| namespace_of(key)));
            cursor = next;
            if cursor == 0 {
                break;
            }
        }
        Ok(found.into_iter().collect())
    }
}

/// The namespace in the key of a first shard's registry.
fn namespace_of(key: &[u8]) -> Option<Namespace> {
    let name = key.strip_prefix(b"{")?.strip_suffix(b":0}:meta")?;
    Namespace::new(std::str::from_utf8(name).ok()?).ok()
}
