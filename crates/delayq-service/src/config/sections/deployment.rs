//! `[deployment]`: which delayq this is.

use delayq_core::{Namespace, ShardCount};
use serde::{Deserialize, Serialize};

use crate::config::Section;

/// `[deployment]`: what every process of one deployment must agree on. Redis records it and refuses another.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DeploymentConfig {
    /// First part of every key in Redis, so that deployments can share one. 1 to 32 of `A-Z a-z 0-9 - _`; default `dq`.
    /// Another name is another, empty deployment.
    pub namespace: Namespace,
    /// Number of shards a deployment is created with. 1 to 4096; default 16. More than timers × cores is enough; each
    /// costs a few keys and a look every five seconds. Once there are more (`delayq shards grow`), Redis knows, and
    /// the new number and every earlier one is right here.
    pub shards: ShardCount,
}

impl Section for DeploymentConfig {}
