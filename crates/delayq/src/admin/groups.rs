//! Lists the messages of a group.

use super::Admin;
use crate::calls::Calls;
use crate::error::Error;
use delayq_core::id::Group;
use delayq_core::limits::MAX_IDS_A_CALL;
use delayq_core::shard::ShardId;
use delayq_core::time::UnixMillis;
use delayq_core::verbs::cursor::Cursor;
use delayq_core::verbs::list::{self, Listed};

// === impl Admin ===

impl Admin {
    /// Returns the first `most` pending messages of a group by due time, and the number of all pending messages of the
    /// group.
    ///
    /// # Errors
    /// Redis cannot be used.
    pub async fn list_group(&self, group: &Group, most: usize) -> Result<(Vec<Listed>, u64), Error> {
        let (mut all, mut total, mut through) = (Vec::new(), 0, Vec::new());
        while let Some(shard) = self.client.calls.shared_layout().next_shard_of(group, &through) {
            let (some, has) = list_in(&self.client.calls, shard, group, most).await?;
            all.extend(some);
            total += has;
            through.push(shard);
        }
        all.sort_by_key(|listed| listed.envelope.as_ref().map_or(UnixMillis::MAX, |envelope| envelope.due));
        all.truncate(most);
        Ok((all, total))
    }
}

/// Lists the messages of a group in one shard, and counts the messages.
async fn list_in(
    calls: &Calls,
    shard: ShardId,
    group: &Group,
    most: usize,
) -> Result<(Vec<Listed>, u64), Error> {
    let (mut all, mut cursor) = (Vec::new(), Cursor::from(UnixMillis::new(0)));
    loop {
        let limit = most.saturating_sub(all.len()).clamp(1, MAX_IDS_A_CALL) as u16;
        let (page, total) = calls
            .ask(list::group(shard, group, &cursor, limit), |reply| list::read_group(reply, shard))
            .await?;
        all.extend(page.messages);
        match page.next.filter(|_| all.len() < most) {
            Some(next) => cursor = next,
            None => return Ok((all, total)),
        }
    }
}
