//! One call of a script, as it is sent.

use crate::{ShardId, script::Verb};
use redis::{Cmd, ToRedisArgs};

/// Where the layout stands in a call, behind EVALSHA, the script, the number of keys and two keys.
const LAYOUT_AT: usize = 5;

/// One call of a script.
#[derive(Clone)]
pub(crate) struct Call {
    pub(crate) verb: Verb,
    pub(crate) shard: ShardId,
    /// The layout that it says its caller knows.
    pub(crate) layout: u32,
    pub(super) command: Cmd,
}

// === impl Call ===

impl Call {
    /// One more argument.
    pub(crate) fn arg(mut self, arg: impl ToRedisArgs) -> Self {
        self.command.arg(arg);
        self
    }

    pub(crate) fn push(&mut self, arg: impl ToRedisArgs) {
        self.command.arg(arg);
    }

    /// The same call by a caller that knows another layout.
    pub(crate) fn with_layout(&self, layout: u32) -> Self {
        let mut command = Cmd::new();
        for (place, arg) in self.command.args_iter().enumerate() {
            match arg {
                redis::Arg::Simple(_) if place == LAYOUT_AT => command.arg(layout),
                redis::Arg::Simple(bytes) => command.arg(bytes),
                _ => unreachable!("a script is called with plain arguments alone"),
            };
        }
        Self { verb: self.verb, shard: self.shard, layout, command }
    }
}
