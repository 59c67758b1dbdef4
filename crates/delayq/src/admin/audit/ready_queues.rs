//! Finds ready messages that are missing from all queues, and so are lost to every consumer.

use super::findings::Finding;
use super::paced_calls::PacedCalls;
use crate::error::Error;
use delayq_core::shard::ShardId;
use delayq_core::verbs::audit;
use redis::from_redis_value;
use std::collections::{BTreeMap, HashSet};

/// Maximum ready messages in memory until the queues are searched.
const MOST: usize = 100_000;
/// Entries of a queue that are read in one step.
const A_STEP: isize = 2000;
/// Groups that are read in one step.
const GROUPS_A_STEP: usize = 500;
/// Messages that are checked again in one call.
const BODIES_A_CALL: usize = 100;
/// Searches of a queue before a missing message counts as lost: a reserve moves messages that cannot be reserved now to
/// the end of the queue, which the search has already passed.
const LOOKS: usize = 3;

/// Messages that were pending and in no bucket, by shard and topic number: id and gen.
#[derive(Debug, Default)]
pub(super) struct LostCandidates {
    queues: BTreeMap<(ShardId, Vec<u8>), HashSet<Vec<u8>>>,
    count: usize,
}

// === impl LostCandidates ===

impl LostCandidates {
    /// `receipt` is `<topic number>:<id>` and the gen.
    pub(super) fn add(&mut self, shard: ShardId, receipt: &[u8]) {
        let Some(colon) = receipt.iter().position(|&byte| byte == b':') else { return };
        let queue = self.queues.entry((shard, receipt[..colon].to_vec())).or_default();
        self.count += usize::from(queue.insert(receipt[colon + 1..].to_vec()));
    }

    pub(super) fn is_full(&self) -> bool {
        self.count >= MOST
    }

    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }
}

// === impl PacedCalls ===

impl PacedCalls {
    /// Returns the candidates that are in no queue: ready under the same gen at the first check and at the last, and
    /// not found in between.
    pub(super) async fn lost(&mut self, candidates: &LostCandidates) -> Result<Vec<Finding>, Error> {
        let mut lost = Vec::new();
        for ((shard, number), members) in &candidates.queues {
            let (shard, mut members) = (*shard, members.clone());
            for _ in 0..LOOKS {
                self.look_through(shard, number, &mut members).await?;
                members = self.still_ready(shard, number, members).await?;
                if members.is_empty() {
                    break;
                }
            }
            let receipt = |member: Vec<u8>| [&number[..], b":", &member].concat();
            lost.extend(members.into_iter().map(|member| Finding::of_lost(shard, receipt(member))));
        }
        Ok(lost)
    }

    /// Removes the members that are in the queue, or parked by their group. Reads from the end to the head, so that entries that are added or
    /// taken meanwhile do not move other entries past the search.
    async fn look_through(
        &mut self,
        shard: ShardId,
        number: &[u8],
        members: &mut HashSet<Vec<u8>>,
    ) -> Result<(), Error> {
        self.look_through_list(shard, &[b"r:", number].concat(), members).await?;
        // Afterwards, since parked entries come from the ready queue.
        let groups = [b"k:", number].concat();
        let mut from = 0;
        while !members.is_empty() {
            let page = self.page(shard, &groups, from..from + GROUPS_A_STEP).await?;
            for group in &page {
                self.look_through_list(shard, &[b"p:", number, b":", group].concat(), members).await?;
            }
            if page.len() < GROUPS_A_STEP {
                return Ok(());
            }
            from += GROUPS_A_STEP;
        }
        Ok(())
    }

    async fn look_through_list(
        &mut self,
        shard: ShardId,
        list: &[u8],
        members: &mut HashSet<Vec<u8>>,
    ) -> Result<(), Error> {
        let key = [self.keys().base(shard).as_bytes(), list].concat();
        let mut end = -1;
        while !members.is_empty() {
            let mut lrange = redis::cmd("LRANGE");
            lrange.arg(&key).arg(end - A_STEP + 1).arg(end);
            // A queue of the wrong type has no members.
            let reply = match self.run(shard, &lrange).await {
                Err(error) if error.is_wrong_type() => return Ok(()),
                Err(error) => return Err(error),
                Ok(reply) => reply,
            };
            let entries: Vec<Vec<u8>> = from_redis_value(reply)
                .map_err(|error| Error::Unfit(format!("unexpected reply to LRANGE: {error}")))?;
            for entry in entries.iter().filter(|entry| entry.len() > 7) {
                members.remove(&entry[..entry.len() - 7]);
            }
            if entries.len() < A_STEP.unsigned_abs() {
                return Ok(());
            }
            end -= A_STEP;
        }
        Ok(())
    }

    /// Returns the members that are ready under the same gen now.
    async fn still_ready(
        &mut self,
        shard: ShardId,
        number: &[u8],
        members: HashSet<Vec<u8>>,
    ) -> Result<HashSet<Vec<u8>>, Error> {
        let all: Vec<&Vec<u8>> = members.iter().collect();
        let mut ready = HashSet::new();
        for some in all.chunks(BODIES_A_CALL) {
            let key = |member: &&Vec<u8>| [b"m:", number, b":", &member[..member.len() - 4]].concat();
            let keys: Vec<Vec<u8>> = some.iter().map(key).collect();
            let told = self.ask(audit::messages(shard, &keys), audit::read_messages).await?;
            let receipts =
                told.findings.into_iter().filter(|(word, _)| word == "ready").map(|(_, name)| name);
            ready.extend(receipts.filter_map(|name| name.get(number.len() + 1..).map(<[u8]>::to_vec)));
        }
        ready.retain(|member| members.contains(member));
        Ok(ready)
    }
}
