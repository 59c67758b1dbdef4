//! The way to the shards: the nodes, what is known of the layout and of durability, and one round of calls.

use super::grouping::in_order;
use crate::durable::Durable;
use crate::error::Error;
use crate::growth::SharedLayout;
use crate::link::Link;
use crate::script_link::{Outgoing, ScriptLink, Sent};
use crate::topology::{Grouped, Nodes};
use delayq_core::call::Call;
use delayq_core::durability::Waits;
use delayq_core::id::Topic;
use delayq_core::keys::Keys;
use delayq_core::layout::CallerLayout;
use delayq_core::script::Verb;
use delayq_core::shard::{ShardCount, ShardId};
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, join_all};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::time::Instant;

/// The way to the shards of a deployment. Cheap to clone: all clones share one connection.
#[derive(Clone)]
pub(crate) struct Calls {
    scripts: Arc<ScriptLink>,
    durable: Arc<Durable>,
    layout: SharedLayout,
}

pub(crate) type AtNode = (Arc<Link>, Vec<ShardId>);

// === impl Calls ===

impl Calls {
    pub(crate) fn new(scripts: ScriptLink, shards: ShardCount) -> Self {
        let layout = SharedLayout::configured(shards);
        Self { scripts: Arc::new(scripts), durable: Arc::default(), layout }
    }

    pub(crate) fn apart(&self) -> Self {
        let Self { scripts, durable, layout } = self.clone();
        Self { scripts: Arc::new(scripts.another()), durable, layout }
    }

    pub(crate) fn nodes(&self) -> &Nodes {
        self.scripts.nodes()
    }

    pub(crate) async fn link_of(&self, shard: ShardId) -> Result<Arc<Link>, Error> {
        self.nodes().of_shard(shard).await
    }

    /// Groups shards by node, with the connection to each node.
    ///
    /// # Errors
    /// A shard's node is unknown, or no node has the shard: nothing was sent.
    pub(crate) async fn by_node(&self, shards: &[ShardId]) -> Result<Vec<AtNode>, Error> {
        let (nodes, nowhere) = self.placed(shards).await;
        nowhere.into_iter().next().map_or(Ok(nodes), |(_, error)| Err(error))
    }

    /// Like [`Self::by_node`], with shards without a node apart.
    pub(crate) async fn placed(&self, shards: &[ShardId]) -> (Vec<AtNode>, Vec<(ShardId, Error)>) {
        let Grouped { nodes, nowhere } = self.nodes().group(shards, self.nodes().settings().deadline).await;
        let theirs = |which: Vec<usize>| which.into_iter().map(|i| shards[i]).collect();
        (
            nodes.into_iter().map(|(link, which)| (link, theirs(which))).collect(),
            nowhere.into_iter().map(|(i, error)| (shards[i], error)).collect(),
        )
    }

    pub(crate) fn keys(&self) -> &Keys {
        self.scripts.keys()
    }

    pub(crate) fn shared_layout(&self) -> &SharedLayout {
        &self.layout
    }

    pub(crate) fn durable(&self) -> &Durable {
        &self.durable
    }

    pub(crate) fn waits(&self, topic: &Topic) -> Waits {
        self.durable.waits(&topic.as_bytes())
    }

    pub(crate) fn known(&self) -> CallerLayout {
        self.layout.known()
    }

    pub(crate) fn shards(&self) -> ShardCount {
        self.layout.shards()
    }

    /// Fills in the layout and the durability of a call.
    pub(super) fn complete(&self, call: &mut Call) {
        call.layout.get_or_insert(self.known().word());
        // The queue of a put sets the wait.
        if call.verb != Verb::Put
            && let Some(topic) = call.written_topic()
        {
            call.waits = self.durable.waits(topic);
        }
    }

    /// Sends each call once. Calls do not hold up other calls that wait for less.
    pub(super) async fn send(&self, calls: &[Outgoing<'_>], at: Option<&Link>, until: Instant) -> Vec<Sent> {
        let Some(first) = calls.first() else { return Vec::new() };
        let waits = |outgoing: &Outgoing<'_>| outgoing.call.waits.clone();
        if calls.iter().all(|outgoing| outgoing.call.waits == first.call.waits) {
            return self.send_waiting(&first.call.waits, calls, at, until).await;
        }
        let mut parts = BTreeMap::<Waits, Vec<usize>>::new();
        for (i, outgoing) in calls.iter().enumerate() {
            parts.entry(waits(outgoing)).or_default().push(i);
        }
        let sent = join_all(parts.into_iter().map(|(waits, which)| async move {
            let some: Vec<Outgoing<'_>> = which.iter().map(|&i| calls[i]).collect();
            let sent = self.send_waiting(&waits, &some, at, until).await;
            which.into_iter().zip(sent).collect::<Vec<_>>()
        }));
        in_order(sent.await.into_iter().flatten().collect())
    }

    /// Sends calls that all wait for the same confirmations. Boxed, so that a caller's future does not nest the types
    /// of a connection.
    fn send_waiting<'r>(
        &'r self,
        waits: &'r Waits,
        calls: &'r [Outgoing<'r>],
        at: Option<&'r Link>,
        until: Instant,
    ) -> BoxFuture<'r, Vec<Sent>> {
        match waits.is_empty() {
            true => self.scripts.send(calls, at, until).boxed(),
            false => self.durable.send(&self.scripts, waits, calls, until).boxed(),
        }
    }
}
