//! Operations: acting on many messages, each only while it is still as it was seen.

mod notes;

use super::{Admin, TopicAdmin};
use crate::error::Error;
use delayq_core::id::Topic;
use delayq_core::record::RecordId;
use delayq_core::shard::ShardId;
use delayq_core::target::Target;
use delayq_core::time::UnixMillis;
use delayq_core::verbs::operate::{self, Acted, Action, Tag};
use delayq_core::verbs::settled;

/// The tag of no message: the answer has the current tag.
const NEVER: Tag = Tag { generation: 0, due: UnixMillis::new(0) };
/// Maximum tries of a burial, each after a move by another caller.
const MAX_MOVES: usize = 10;

/// Selects messages, acts on them in steps that are carried out once, and keeps notes of operations. See
/// [`Admin::operations`].
#[derive(Clone, Copy, Debug)]
pub struct OperationsAdmin<'a> {
    pub(super) admin: &'a Admin,
}

/// One call to a shard, carried out once.
#[derive(Clone, Copy, Debug)]
pub struct Step<'s> {
    /// The shard of the messages.
    pub shard: ShardId,
    /// The topic of the messages.
    pub topic: &'s Topic,
    /// Later calls with this record get the first answers, and change nothing.
    pub record: RecordId,
}

// === impl Admin ===

impl Admin {
    /// Returns the handle to operations, which act on many messages.
    pub const fn operations(&self) -> OperationsAdmin<'_> {
        OperationsAdmin { admin: self }
    }
}

// === impl OperationsAdmin ===

impl OperationsAdmin<'_> {
    /// Acts on messages, at most 500, each as it was seen. Returns the outcomes; `None`: a call with this record was carried out
    /// before, and this one changed nothing.
    ///
    /// # Errors
    /// Redis cannot be used. Safe to repeat after any error.
    pub async fn act(
        self,
        step: Step<'_>,
        action: &Action,
        items: &[(Target, Tag)],
    ) -> Result<Option<Vec<Acted>>, Error> {
        let Step { shard, topic, record } = step;
        let items = items.iter().map(|(target, tag)| (target, *tag));
        let call = operate::request(shard, topic, Some(record), action, items);
        let (is_before, outcomes) = self.admin.client.calls.ask(call, operate::read).await?;
        Ok((!is_before).then_some(outcomes))
    }

    /// Returns the outcomes of the call with this record; none if there was none, or they were forgotten.
    ///
    /// # Errors
    /// Redis cannot be used.
    pub async fn acted(self, step: Step<'_>) -> Result<Vec<Acted>, Error> {
        let call = operate::request(step.shard, step.topic, Some(step.record), &Action::Cancel, []);
        Ok(self.admin.client.calls.ask(call, operate::read).await?.1)
    }

    /// Forgets the outcomes of a call that were noted.
    ///
    /// # Errors
    /// Redis cannot be used. Redis forgets the outcomes after 30 days.
    pub async fn forget_acted(self, step: Step<'_>) -> Result<(), Error> {
        self.admin
            .client
            .calls
            .ask(settled::request(step.shard, [step.record]), settled::read)
            .await
            .map(drop)
    }
}

// === impl TopicAdmin ===

impl TopicAdmin<'_> {
    /// Acts on one message, if it is still as it was seen.
    ///
    /// # Errors
    /// Redis cannot be used. A repeat changes nothing more, and a repeated cancel gets its answer again.
    pub async fn act_on(self, target: &Target, tag: Tag, action: &Action) -> Result<Acted, Error> {
        let calls = &self.admin.client.calls;
        calls.layout().await?;
        let mut acted = Acted::Unknown;
        for shard in calls.shared_layout().shards_of(target) {
            let call = operate::request(shard, self.topic, None, action, [(target, tag)]);
            let (_, outcomes) = calls.ask(call, operate::read).await?;
            acted = outcomes.into_iter().next().unwrap_or(Acted::Unknown);
            if acted != Acted::Unknown {
                break;
            }
        }
        Ok(acted)
    }

    /// Moves one pending message to the dead letters, for this reason, even if it is rescheduled meanwhile.
    /// [`Acted::Changed`]: it was moved by others each time.
    ///
    /// # Errors
    /// Redis cannot be used. A repeat finds a dead letter, and changes nothing.
    pub async fn bury(self, target: &Target, reason: &str) -> Result<Acted, Error> {
        let action = Action::Bury(reason.to_owned());
        let mut acted = self.act_on(target, NEVER, &action).await?;
        for _ in 0..MAX_MOVES {
            let Acted::Changed(_, tag) = acted else { break };
            acted = self.act_on(target, tag, &action).await?;
        }
        Ok(acted)
    }
}
