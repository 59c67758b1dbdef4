//! Learning from refusals: the layout, the node of a shard, and the durability of a topic.

use super::next::Taught;
use super::way::Calls;
use crate::error::Error;
use crate::link::Link;
use crate::topology::{Lesson, check_node, moving};
use delayq_core::call::Call;
use delayq_core::durability::Durability;
use delayq_core::identity::DeploymentId;
use delayq_core::layout::{CallerLayout, Layout, LayoutRelation, LayoutWord, NOT_ASKED};
use delayq_core::reply::Value;
use delayq_core::shard::ShardId;
use delayq_core::verbs::deployment::{self, Grown};
use tokio::time::{Instant, timeout_at};

// === impl Calls ===

impl Calls {
    /// `None` if the answer says nothing about nodes.
    pub(super) async fn learn_place(
        &self,
        node: &Link,
        shard: ShardId,
        error: &mut Error,
        may_ask_until: Option<Instant>,
    ) -> Option<Taught> {
        match self.nodes().learn_from(node, shard, error) {
            Lesson::Slot => Some(Taught::Slot),
            Lesson::Node => Some(Taught::Node),
            Lesson::Replica if self.is_elsewhere(node, shard, may_ask_until).await => Some(Taught::Node),
            Lesson::Between => {
                *error = moving(shard);
                Some(Taught::Nothing)
            }
            Lesson::Replica | Lesson::Nothing => None,
        }
    }

    /// Asks this replica for the shard's record; true if the record names another node. Processes may know a
    /// replica before its promotion, and an operator may take a move back.
    async fn is_elsewhere(&self, link: &Link, shard: ShardId, may_ask_until: Option<Instant>) -> bool {
        let Some(until) = may_ask_until else { return false };
        let asking = vec![deployment::ask(shard).under(NOT_ASKED)];
        let reply = self.ride_plain(asking, Some(link), until).await.pop().expect("each call has one answer");
        let asked = reply.ok().and_then(|reply| deployment::read_asked(reply, shard).ok());
        let node = asked.as_ref().and_then(deployment::Asked::node);
        node.is_some_and(|node| link.name() != Some(node) && self.nodes().learn(shard, node))
    }

    pub(super) fn learn_durability(&self, call: &mut Call, asked: Durability) -> Taught {
        if let Some(topic) = call.written_topic() {
            self.durable().learn(topic, asked);
        }
        call.waits.add(asked);
        Taught::Durability
    }

    /// Also replaces the error where its cause is known.
    pub(super) async fn learn_layout(&self, call: &Call, error: &mut Error, until: Instant) -> Taught {
        let Error::Layout { found, counts, deployment, .. } = &*error else { return Taught::Nothing };
        if let Err(foreign) = self.belongs(call.shard, *deployment) {
            *error = foreign;
            return Taught::Nothing;
        }
        let (Ok(counts), Ok(word)) = (counts.parse::<Layout>(), found.parse::<LayoutWord>()) else {
            return Taught::Nothing;
        };
        if let Err(wrong) = check_node(call.shard, self.nodes().name(call.shard), word.place.node()) {
            *error = wrong;
            return Taught::Nothing;
        }
        if word.number != counts.number() {
            return Taught::Nothing;
        }
        let mut relation = self.shared_layout().learn(&counts);
        if relation == LayoutRelation::NeverSo {
            let asking = timeout_at(until, self.ask_the_last(&counts)).await;
            relation = asking.unwrap_or(LayoutRelation::NeverSo);
        }
        if relation == LayoutRelation::NeverSo {
            *error = never_so(&self.known(), &counts);
        }
        Taught::Layout(relation, call.layout == Some(self.known().word()))
    }

    /// Checks that a shard belongs to the deployment that this client serves, if either is known.
    ///
    /// # Errors
    /// [`Error::Foreign`] names the Redis and both deployments.
    pub(crate) fn belongs(&self, shard: ShardId, found: Option<DeploymentId>) -> Result<(), Error> {
        let Some(found) = found else { return Ok(()) };
        self.shared_layout().belongs(Some(found)).map_err(|known| {
            let at = self
                .nodes()
                .label(shard)
                .map_or_else(|| self.nodes().address(), |node| format!("node {node}"));
            Error::Foreign { at: format!("shard {shard} in Redis at {at}").into(), found, known }
        })
    }

    /// Returns the answer of each shard.
    pub(crate) async fn raise(&self, shards: &[ShardId], layout: &Layout) -> Vec<Result<Grown, Error>> {
        self.raise_by(shards, layout, self.deadline()).await
    }

    pub(super) async fn raise_by(
        &self,
        shards: &[ShardId],
        layout: &Layout,
        until: Instant,
    ) -> Vec<Result<Grown, Error>> {
        let calls = shards.iter().map(|&shard| deployment::grow(shard, layout)).collect();
        let replies = self.ride_plain(calls, None, until).await;
        shards.iter().zip(replies).map(|(&shard, reply)| self.raised(shard, layout, reply?)).collect()
    }

    fn raised(&self, shard: ShardId, layout: &Layout, reply: Value) -> Result<Grown, Error> {
        let grown = deployment::read_grown(reply)?;
        match &grown {
            Grown::Raised => tracing::info!(%shard, %layout, "a shard follows the growth of its deployment"),
            Grown::Ahead(Some(newer)) => {
                self.shared_layout().learn(newer);
            }
            Grown::Differs(found) => {
                return Err(Error::Deployment(format!(
                    "shard {shard} has layout, number and shard counts {found} instead of {} {shard} {layout}",
                    layout.number(),
                )));
            }
            Grown::Created | Grown::Exists | Grown::Ahead(None) => {}
        }
        Ok(grown)
    }
}

/// The error of a client whose configuration has a number of shards that the deployment never had.
pub(super) fn never_so(known: &CallerLayout, found: &Layout) -> Error {
    let counts: Vec<String> = found.counts().iter().map(ToString::to_string).collect();
    Error::Deployment(format!(
        "this process is configured for {}, but the deployment has {}",
        known.layout.shards().in_words(),
        match counts.split_last() {
            Some((newest, earlier)) if !earlier.is_empty() =>
                format!("{newest}, and had {}", earlier.join(", then ")),
            _ => counts.concat(),
        }
    ))
}
