//! `[deployment]`: which delayq this is.

use crate::config::Section;
use delayq::{Namespace, ShardCount};
use serde::{Deserialize, Serialize};

/// `[deployment]`: what every process of one deployment must agree on. Redis records it and refuses another.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DeploymentConfig {
    /// First part of every key in Redis, so that several deployments can share one. 1 to 32 of `A-Z a-z 0-9 - _`; default `dq`.
    /// Another name is another, empty deployment.
    pub namespace: Namespace,
    /// Number of shards that a deployment is created with. 1 to 4096; default 4. As many as timers or Redis masters, whichever are more,
    /// are enough: with more, fewer messages share a call. Each costs a few keys and a poll every six seconds. After `delayq shards grow` the new number and every earlier one are
    /// valid here.
    pub shards: ShardCount,
}

impl Section for DeploymentConfig {}
