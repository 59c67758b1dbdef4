//! Moves shards from a Redis to a new Redis, which is a replica of the old Redis until then.
//!
//! ```text
//! fence at the old node ─► replica has the fences ─► promote the replica ─► mark the other shards ─► open there
//! ```
//! A fence is a record in the shard: the target of the move, and the number of the move. A fenced shard refuses every
//! call. Earlier writes reach the replica before the fence does, so a replica with the fence has all writes. At the new
//! node, the shard is opened only with the number of the present fence: an older copy is never opened. Before
//! that, all other shards at the new node are marked as left behind, so that no copy takes a call for the old node.
//!
//! Every step may be repeated, so an interrupted move is finished by starting the move again. Until the shard is
//! opened, the move can be taken back.

mod plan;
mod replication;
mod twice;

use super::ShardsAdmin;
use crate::admin::key_scan::KeyScan;
use crate::clock;
use crate::error::Error;
use crate::link::Link;
use crate::topology::NodeMap;
use delayq_core::call::Call;
use delayq_core::id::NodeName;
use delayq_core::layout::RecordedPlace;
use delayq_core::limits::MAX_IDS_A_CALL;
use delayq_core::shard::ShardId;
use delayq_core::verbs::deployment::{self, Asked, Discarded, Recorded, ShardLayout};
use plan::{Planned, Records, plan};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// Maximum time until the replica has the fences; after that, the fences are taken back.
const CATCH_UP: Duration = Duration::from_secs(10);
/// Interval between two calls to the replica.
const AGAIN: Duration = Duration::from_millis(5);
/// Keys walked over in one step of deleting moved shards.
const KEYS_A_STEP: usize = 500;

/// The progress of a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MoveStep {
    /// The old node refuses every call for the shards.
    Fenced,
    /// The new node has all data of the old node.
    Copied,
    /// The new node takes writes.
    Promoted,
    /// The new node serves the shards.
    Opened,
}

/// The result of a move.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MoveReport {
    /// The old node of the shards; `None`: all shards had moved before.
    pub from: Option<NodeName>,
    /// Number of shards that moved now.
    pub moved: usize,
    /// Time during which no node served the shards, as far as this call saw.
    pub away: Duration,
    /// True if an earlier move had fenced some of the shards, which were then out of service for longer.
    pub resumed: bool,
    /// The reason why the new node could not save the promotion in the configuration file.
    pub not_written: Option<String>,
}

// === impl ShardsAdmin ===

impl ShardsAdmin<'_> {
    /// Makes every shard of a former single-Redis deployment record the shard's node in the map. From then on,
    /// processes without the map are refused. Returns the number of shards that recorded no node before. Safe to
    /// repeat.
    ///
    /// # Errors
    /// There is no map, or the map has a shard elsewhere; a Redis that cannot be used.
    pub async fn name_all(self) -> Result<usize, Error> {
        let calls = &self.admin.client.calls;
        if calls.nodes().map().is_none() {
            return Err(Error::Move(
                "the deployment has one Redis: configure it as [[redis.nodes]] first".to_owned(),
            ));
        }
        let all: Vec<ShardId> = calls.layout().await?.shards().shards().collect();
        let mut unnamed = Vec::new();
        for (&shard, found) in all.iter().zip(calls.shard_layouts(&all).await) {
            if let ShardLayout { node: None, .. } = found?.ok_or(Error::Uninitialised(shard))? {
                let node = calls.nodes().name(shard).ok_or(Error::Uninitialised(shard))?.clone();
                unnamed.push(deployment::record(shard, &RecordedPlace::Unnamed, &RecordedPlace::Here(node)));
            }
        }
        let shards: Vec<ShardId> = unnamed.iter().map(|call| call.shard).collect();
        let replies = calls.send_plain(unnamed).await;
        shards.iter().zip(replies).try_for_each(|(&shard, reply)| is_recorded(shard, reply))?;
        Ok(shards.len())
    }

    /// Moves shards during normal use to another node, which is a replica of the node that has the shards: see the
    /// documentation of operations. `progress` gets each step.
    ///
    /// # Errors
    /// [`Error::Move`]: the move is refused, and nothing was changed unless the text says so. After an error of a
    /// connection the shards may be fenced: repeat the move, or [take the move back](Self::take_back).
    pub async fn move_to(
        self,
        shards: &BTreeSet<ShardId>,
        to: &NodeName,
        mut progress: impl FnMut(MoveStep),
    ) -> Result<MoveReport, Error> {
        let records = self.records().await?;
        let Planned { from, left, to_fence } = plan(&records, shards, to).map_err(Error::Move)?;
        let resumed = to_fence.len() < left.len();
        let mut report =
            MoveReport { from, moved: left.len(), away: Duration::ZERO, resumed, not_written: None };
        let Some(from) = report.from.clone() else { return Ok(report) };
        let (old, new) = (self.node(&from)?, self.node(to)?);
        let is_replica = replication::check(&old, &new, &from, to, !to_fence.is_empty()).await?;
        let began = clock::instant();
        self.fence(&old, &to_fence, &from, to).await?;
        progress(MoveStep::Fenced);
        let fences = match self.wait_for_fences(&old, &new, &left).await {
            Ok(fences) => fences,
            // The node was a replica after the fences were set, so it serves none of the shards, even if no answer
            // comes.
            Err(error) if is_replica => {
                self.give_back(&from, &self.records_of(&old, &all_of(&left)).await?).await?;
                return Err(Error::Move(format!("undone, because node {to} does not follow: {error}")));
            }
            Err(error) => return Err(error),
        };
        progress(MoveStep::Copied);
        report.not_written = replication::promote(&new).await?;
        progress(MoveStep::Promoted);
        self.open(&new, &fences, to).await?;
        report.away = began.elapsed();
        progress(MoveStep::Opened);
        Ok(report)
    }

    /// Gives fenced shards that the new node does not serve yet back to the old node. Returns the number of shards.
    /// Must not run during a move.
    ///
    /// # Errors
    /// [`Error::Move`] if the new node, which has to answer, serves one of the shards; a Redis that cannot be used.
    pub async fn take_back(self, shards: &BTreeSet<ShardId>, from: &NodeName) -> Result<usize, Error> {
        let records = self.records().await?;
        let mut back = 0;
        for (node, of_node) in &records {
            let fenced = of_node.iter().filter(|(shard, place)| {
                let is_fence = matches!(place, RecordedPlace::Moved(to, Some(_)) if to == from);
                is_fence && shards.contains(shard) && records.keepers(**shard).is_empty()
            });
            if node != from {
                let fenced = fenced.map(|(&shard, place)| (shard, place.clone())).collect();
                back += self.give_back(node, &fenced).await?;
            }
        }
        match shards.iter().find(|shard| records.keepers(**shard).contains(&from)) {
            Some(shard) => Err(Error::Move(format!(
                "node {from} already serves shard {shard}: the move cannot be undone"
            ))),
            None => Ok(back),
        }
    }

    /// Makes a node serve shards again that have these fences at the node. Returns the number of shards.
    async fn give_back(
        self,
        node: &NodeName,
        fences: &BTreeMap<ShardId, RecordedPlace>,
    ) -> Result<usize, Error> {
        let (calls, here) = (&self.admin.client.calls, RecordedPlace::Here(node.clone()));
        let recording: Vec<Call> =
            fences.iter().map(|(&shard, fence)| deployment::record(shard, fence, &here)).collect();
        for (&shard, reply) in fences.keys().zip(calls.send_at(&*self.node(node)?, recording).await) {
            is_recorded(shard, reply)?;
            calls.nodes().learn(shard, node);
        }
        Ok(fences.len())
    }

    /// Deletes the remains of shards that other nodes serve. Returns the number of deleted keys by node. `progress`
    /// gets the number of keys so far. Safe to repeat.
    ///
    /// # Errors
    /// A Redis that cannot be used.
    pub async fn discard_moved(
        self,
        mut progress: impl FnMut(u64),
    ) -> Result<BTreeMap<NodeName, u64>, Error> {
        let (records, calls) = (self.records().await?, &self.admin.client.calls);
        let (mut deleted, mut total) = (BTreeMap::new(), 0);
        for (node, of_node) in &records {
            let is_left = |(shard, place): &(&ShardId, &RecordedPlace)| matches!(place, RecordedPlace::Moved(to, _) if records.keepers(**shard) == [to]);
            let left: BTreeSet<ShardId> = of_node.iter().filter(is_left).map(|(&shard, _)| shard).collect();
            let link = self.node(node)?;
            let mut scan = KeyScan::new(format!("{{{}:*", self.admin.client.namespace()), KEYS_A_STEP);
            while !left.is_empty() && !scan.is_over() {
                let mut keys = BTreeMap::<ShardId, Vec<&[u8]>>::new();
                let found = scan.next_of(std::slice::from_ref(&link)).await?;
                for (shard, rest) in found.iter().filter_map(|key| calls.keys().parse(key)) {
                    if left.contains(&shard) {
                        keys.entry(shard).or_default().push(rest);
                    }
                }
                let pieces = keys.iter().flat_map(|(&shard, keys)| {
                    keys.chunks(MAX_IDS_A_CALL)
                        .map(move |some| deployment::discard(shard, some.iter().copied()))
                });
                let pieces: Vec<Call> = pieces.collect();
                for reply in calls.send_at(&link, pieces).await {
                    if let Discarded::Keys(keys @ 1..) = deployment::read_discarded(reply?)? {
                        total += keys;
                        *deleted.entry(node.clone()).or_default() += keys;
                    }
                }
                progress(total);
            }
        }
        Ok(deleted)
    }

    fn node(self, name: &NodeName) -> Result<Arc<Link>, Error> {
        let link = self.admin.client.calls.nodes().named(name);
        link.map(Arc::clone).ok_or_else(|| Error::Move(format!("no node {name} in [[redis.nodes]]")))
    }

    /// Reads the records of every shard, at each node.
    async fn records(self) -> Result<Records, Error> {
        let calls = &self.admin.client.calls;
        if calls.nodes().map().is_none() {
            return Err(Error::Move("shards move only between nodes of [[redis.nodes]]".to_owned()));
        }
        let all: Vec<ShardId> = calls.layout().await?.shards().shards().collect();
        let mut records = Records::default();
        for node in calls.nodes().map().into_iter().flat_map(NodeMap::nodes) {
            records.add(node.name.clone(), self.records_of(&*self.node(&node.name)?, &all).await?);
        }
        Ok(records)
    }

    async fn records_of(
        self,
        link: &Link,
        shards: &[ShardId],
    ) -> Result<BTreeMap<ShardId, RecordedPlace>, Error> {
        let asking: Vec<Call> = shards.iter().map(|&shard| deployment::ask(shard)).collect();
        let mut records = BTreeMap::new();
        for (&shard, reply) in shards.iter().zip(self.admin.client.calls.send_at(link, asking).await) {
            match deployment::read_asked(reply?, shard)? {
                Asked::Missing => None,
                Asked::Moved(place) => records.insert(shard, place),
                Asked::Here(found) => {
                    records.insert(shard, found.node.map_or(RecordedPlace::Unnamed, RecordedPlace::Here))
                }
                Asked::Foreign { layout, .. } => {
                    return Err(Error::Deployment(format!("shard {shard} has layout {layout}")));
                }
            };
        }
        Ok(records)
    }

    async fn fence(
        self,
        old: &Link,
        shards: &BTreeSet<ShardId>,
        from: &NodeName,
        to: &NodeName,
    ) -> Result<(), Error> {
        let here = RecordedPlace::Here(from.clone());
        let fence = RecordedPlace::Moved(to.clone(), Some(clock::now().get()));
        let fencing: Vec<Call> =
            shards.iter().map(|&shard| deployment::record(shard, &here, &fence)).collect();
        let replies = self.admin.client.calls.send_at(old, fencing).await;
        shards.iter().zip(replies).try_for_each(|(&shard, reply)| is_recorded(shard, reply))
    }

    /// Returns the fences of shards, once the new node has the same fences as the old node.
    async fn wait_for_fences(
        self,
        old: &Link,
        new: &Link,
        shards: &BTreeSet<ShardId>,
    ) -> Result<BTreeMap<ShardId, RecordedPlace>, Error> {
        let shards = all_of(shards);
        let fences = self.records_of(old, &shards).await?;
        let began = clock::instant();
        loop {
            let copies = self.records_of(new, &shards).await;
            match copies {
                Ok(copies) if copies == fences => return Ok(fences),
                _ if began.elapsed() < CATCH_UP => tokio::time::sleep(AGAIN).await,
                Ok(_) => {
                    let why = format!("the replica did not catch up within {CATCH_UP:?}");
                    return Err(Error::Move(why));
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Marks the other shards at the new node as left behind, and opens the moved shards.
    async fn open(
        self,
        new: &Link,
        fences: &BTreeMap<ShardId, RecordedPlace>,
        to: &NodeName,
    ) -> Result<(), Error> {
        let calls = &self.admin.client.calls;
        let all: Vec<ShardId> = calls.layout().await?.shards().shards().collect();
        let mut recording = Vec::new();
        for (&shard, place) in &self.records_of(new, &all).await? {
            if let RecordedPlace::Here(node) = place
                && node != to
            {
                recording.push(deployment::record(shard, place, &RecordedPlace::Moved(node.clone(), None)));
            }
        }
        let here = RecordedPlace::Here(to.clone());
        recording.extend(fences.iter().map(|(&shard, fence)| deployment::record(shard, fence, &here)));
        let shards: Vec<ShardId> = recording.iter().map(|call| call.shard).collect();
        let replies = calls.send_at(new, recording).await;
        shards.iter().zip(replies).try_for_each(|(&shard, reply)| is_recorded(shard, reply))?;
        for &shard in fences.keys() {
            calls.nodes().learn(shard, to);
        }
        Ok(())
    }
}

fn all_of(shards: &BTreeSet<ShardId>) -> Vec<ShardId> {
    shards.iter().copied().collect()
}

fn is_recorded(shard: ShardId, reply: Result<delayq_core::reply::Value, Error>) -> Result<(), Error> {
    match deployment::read_recorded(reply?)? {
        Recorded::Moved | Recorded::Exists => Ok(()),
        Recorded::Differs(layout) => Err(Error::Move(format!(
            "shard {shard} now has layout {layout}, so another move is running: repeat the command"
        ))),
    }
}
