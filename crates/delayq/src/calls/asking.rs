//! Asking shards for the layout of the deployment, and for the node of each shard.

use super::grouping::Batch;
use super::learning::never_so;
use super::load::Load;
use super::ride::{Ride, Rules};
use super::way::Calls;
use crate::error::Error;
use crate::script_link::Sent;
use crate::topology::{NodeMap, Nodes, check_node, elsewhere, moving};
use delayq_core::call::Call;
use delayq_core::id::NodeName;
use delayq_core::layout::{Layout, LayoutRelation};
use delayq_core::reply::{ReplyError, Value};
use delayq_core::shard::ShardId;
use delayq_core::verbs::deployment::{self, Asked, ShardLayout};
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, join_all};

/// Maximum times, on average, that a shard is asked again at the node that the shard names.
const MOST_MOVES: usize = 4;

// === impl Calls ===

impl Calls {
    pub(crate) async fn shard_layouts(&self, shards: &[ShardId]) -> Vec<Result<Option<ShardLayout>, Error>> {
        self.look_for(shards).await.0
    }

    /// As [`Self::shard_layouts`], before missing shards are created: no node may have a missing shard.
    pub(crate) async fn certain_layouts(
        &self,
        shards: &[ShardId],
    ) -> Result<Vec<Option<ShardLayout>>, Error> {
        let (found, unsure) = self.look_for(shards).await;
        let found = found.into_iter().collect::<Result<Vec<_>, Error>>()?;
        unsure.map_or(Ok(found), Err)
    }

    /// If shards are missing, also returns the error of a node that cannot tell if these shards are there.
    async fn look_for(&self, shards: &[ShardId]) -> (Vec<Result<Option<ShardLayout>, Error>>, Option<Error>) {
        let word = self.known().word();
        let calls: Vec<Call> = shards.iter().map(|&shard| deployment::ask(shard).under(word)).collect();
        let mut found: Vec<Result<Option<ShardLayout>, Error>> = self
            .asked(&calls)
            .await
            .into_iter()
            .zip(shards)
            .map(|(asked, &shard)| self.shard_layout(shard, asked?))
            .collect();
        let mut unsure = None;
        if self.nodes().map().is_some() && found.iter().any(|found| matches!(found, Ok(None))) {
            unsure = self.find_elsewhere(&calls, &mut found).await;
        }
        (found, unsure)
    }

    /// Boxed, because refusals of other calls are explained by these answers.
    fn asked<'a>(&'a self, calls: &'a [Call]) -> BoxFuture<'a, Vec<Result<Asked, Error>>> {
        let rules = Rules { follows: false, ..Rules::once(self) };
        let mut asking =
            Asking { nodes: self.nodes(), calls, answers: calls.iter().map(|_| None).collect(), moves: 0 };
        async move {
            Ride::new(self, rules, (0..calls.len()).collect()).finish(&mut asking).await;
            asking.answers.into_iter().map(|answer| answer.expect("each shard is asked")).collect()
        }
        .boxed()
    }

    fn shard_layout(&self, shard: ShardId, asked: Asked) -> Result<Option<ShardLayout>, Error> {
        let (at, recorded) = (self.nodes().name(shard), asked.node());
        if matches!(asked, Asked::Moved(_)) && at == recorded {
            return Err(moving(shard));
        }
        if recorded.is_some() {
            check_node(shard, at, recorded)?;
        }
        if let Asked::Here(ShardLayout { identity, .. }) = &asked {
            self.belongs(shard, *identity)?;
        }
        shard_layout(shard, asked)
    }

    /// `calls` ask for the layouts. Returns the error of a node that cannot tell.
    async fn find_elsewhere(
        &self,
        calls: &[Call],
        found: &mut [Result<Option<ShardLayout>, Error>],
    ) -> Option<Error> {
        let mut unsure = None;
        let missing: Vec<usize> = (0..found.len()).filter(|&i| matches!(found[i], Ok(None))).collect();
        let asked: Vec<Call> = missing.iter().map(|&i| calls[i].clone()).collect();
        for (node, replies) in self.ask_everywhere(&asked).await {
            for (&i, reply) in missing.iter().zip(replies) {
                let shard = calls[i].shard;
                match reply.and_then(|reply| Ok(deployment::read_asked(reply, shard)?)) {
                    Err(error) => unsure = unsure.or(Some(error)),
                    Ok(Asked::Missing | Asked::Moved(_)) => {}
                    Ok(_) => found[i] = Err(elsewhere(shard, self.nodes().name(shard), &node)),
                }
            }
        }
        unsure
    }

    async fn ask_everywhere(&self, calls: &[Call]) -> Vec<(NodeName, Vec<Result<Value, Error>>)> {
        let links = self.nodes().all().await.unwrap_or_default();
        let asked = links.iter().filter_map(|link| {
            let name = link.name()?.clone();
            Some(async move { (name, self.send_at(link, calls.to_vec()).await) })
        });
        join_all(asked).await
    }

    /// Returns the layout of the deployment; if unknown, asks the first shard. If the first shard's node, among several
    /// Redises, cannot be used or came back empty, asks the other shards.
    ///
    /// # Errors
    /// [`Error::Uninitialised`] without a deployment, [`Error::Deployment`] if the deployment never had the configured
    /// number of shards; a Redis that cannot be used.
    pub(crate) async fn layout(&self) -> Result<Layout, Error> {
        if !self.known().asked {
            let found = self.any_layout().await?;
            if self.shared_layout().learn(&found) == LayoutRelation::NeverSo {
                return Err(never_so(&self.known(), &found));
            }
        }
        Ok(self.known().layout)
    }

    async fn any_layout(&self) -> Result<Layout, Error> {
        let first = ShardId::new(0);
        let mut unknown = match self.shard_layouts(&[first]).await.pop().expect("each shard has one answer") {
            Ok(Some(found)) => return Ok(found.layout),
            Ok(None) => Error::Uninitialised(first),
            Err(error) if error.is_outage() => error,
            Err(error) => return Err(error),
        };
        if self.nodes().only().is_some() {
            return Err(self.noting_none(unknown));
        }
        // The deployment may have grown beyond the configured number; the map gives the upper limit.
        let all = self.nodes().map().map_or(self.shards().get().into(), NodeMap::shards);
        let others: Vec<ShardId> = (0..).take(all).skip(1).map(ShardId::new).collect();
        for found in self.shard_layouts(&others).await {
            match found {
                Ok(Some(found)) => return Ok(found.layout),
                // The Redis of this shard may have the deployment.
                Err(error) if error.is_outage() && matches!(unknown, Error::Uninitialised(_)) => {
                    unknown = error;
                }
                Ok(None) | Err(_) => {}
            }
        }
        Err(self.noting_none(unknown))
    }

    /// Forgets the identity of a deployment that no longer exists.
    fn noting_none(&self, unknown: Error) -> Error {
        if matches!(unknown, Error::Uninitialised(_)) {
            self.shared_layout().forget_identity();
        }
        unknown
    }

    /// Explains missing shards. A missing shard is lost, at another node, or only configured; in the last case the
    /// first shard's layout shows that the deployment never had so many shards.
    pub(super) async fn explain_missing(&self, calls: &[&Call], sent: &mut [Sent]) {
        let missing = |sent: &Sent| matches!(sent.answer, Err(Error::Uninitialised(_)));
        if !sent.iter().any(missing) {
            return;
        }
        if self.nodes().map().is_some() {
            let shards: Vec<ShardId> = calls.iter().map(|call| call.shard).collect();
            let explained = self.shard_layouts(&shards).await;
            for (sent, explained) in sent.iter_mut().zip(explained) {
                if let (true, Err(error @ Error::Deployment(_))) = (missing(sent), explained) {
                    sent.answer = Err(error);
                }
            }
        }
        let Ok(found) = self.any_layout().await else { return };
        if self.shared_layout().learn(&found) == LayoutRelation::NeverSo
            && self.ask_the_last(&found).await == LayoutRelation::NeverSo
        {
            let error = never_so(&self.known(), &found);
            sent.iter_mut().filter(|sent| missing(sent)).for_each(|sent| sent.answer = Err(error.clone()));
        }
    }

    /// A configured number of shards that this shard does not know may belong to a growth that has not reached the
    /// shard yet: the last shard, which the growth created first, knows the number.
    pub(super) async fn ask_the_last(&self, found: &Layout) -> LayoutRelation {
        let configured = self.known().layout.shards();
        let last = ShardId::new(configured.get() - 1);
        match self.shard_layouts(&[last]).await.pop() {
            Some(Ok(Some(said))) if said.layout.continues(found) => self.shared_layout().learn(&said.layout),
            _ => LayoutRelation::NeverSo,
        }
    }
}

struct Asking<'a> {
    nodes: &'a Nodes,
    calls: &'a [Call],
    answers: Vec<Option<Result<Asked, Error>>>,
    /// Number of times that a shard was found at another node.
    moves: usize,
}

// === impl Asking ===

impl Load for Asking<'_> {
    type Key = usize;

    fn next_call(&self, item: usize) -> (usize, usize) {
        (item, 0)
    }

    fn call(&mut self, batch: &Batch<usize>) -> Call {
        self.calls[batch.key].clone()
    }

    /// A shard that names another node is asked again at that node.
    fn read(&mut self, batch: &Batch<usize>, reply: Value) -> Result<Vec<usize>, ReplyError> {
        let shard = self.calls[batch.key].shard;
        let asked = deployment::read_asked(reply, shard)?;
        let is_news = |node| self.nodes.name(shard) != Some(node) && self.nodes.learn(shard, node);
        let again = self.moves < MOST_MOVES * self.calls.len() && asked.node().is_some_and(is_news);
        self.moves += usize::from(again);
        self.answers[batch.key] = Some(Ok(asked));
        Ok(if again { batch.items.clone() } else { Vec::new() })
    }

    fn fail(&mut self, item: usize, _shard: ShardId, error: Error) {
        self.answers[item] = Some(Err(error));
    }
}

fn shard_layout(shard: ShardId, asked: Asked) -> Result<Option<ShardLayout>, Error> {
    match asked {
        Asked::Missing => Ok(None),
        Asked::Here(found) => Ok(Some(found)),
        Asked::Moved(place) => {
            Err(Error::Deployment(format!("shard {shard} has moved to another node: {place}")))
        }
        Asked::Foreign { layout, number, counts } => Err(Error::Deployment(format!(
            "shard {shard} has layout {layout} as number {number} with shard counts {counts}"
        ))),
    }
}
