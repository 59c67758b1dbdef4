//! `delayq log`.

use crate::deployment::Context;
use crate::failure::of_core;
use crate::listing::{json_of, story};
use clap::Args;
use delayq::{Group, MessageId, Target, Topic};
use delayq_service::Fault;

/// Show what happened to a message, as long as it is remembered
///
/// How long it is remembered is its topic's policy: delayq topic show TOPIC.
#[derive(Debug, Args)]
pub struct Log {
    /// Its topic
    topic: Topic,
    /// Its id
    id: MessageId,
    /// Its group: a message with an id of its own and a group is found only by both
    #[arg(long, short = 'g')]
    group: Option<Group>,
}

// === impl Log ===

impl Log {
    /// Prints it.
    ///
    /// # Errors
    /// Redis cannot be used, or nothing is known of it.
    pub async fn run(self, context: &Context) -> Result<(), Fault> {
        let target = Target { id: self.id, group: self.group };
        let found = context.admin().get(&self.topic, &target).await.map_err(of_core)?;
        let Some(listed) = found else { return Err(context.unknown_message(&self.topic, &target.id).await) };
        let now = context.now().await?;
        context.output.print(&json_of(&listed, false), || {
            let story = story(&listed, now).join("\n  ");
            format!("{} of {} (shard {})\n  {story}", listed.id, listed.topic, listed.shard)
        })
    }
}
