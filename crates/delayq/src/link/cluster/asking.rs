//! Asking the nodes of a cluster which of them has which slot.

use crate::error::Error;
use crate::link::Link;
use crate::link::board::Board;
use crate::link::node::Node;
use crate::link::slot_map::SlotMap;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use redis::{Pipeline, Value, from_redis_value};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

/// The rest between two rounds, however many doubts there are.
const PAUSE: Duration = Duration::from_millis(50);
/// How often the map is asked for without any doubt.
const SLOWLY: Duration = Duration::from_secs(20);
/// How much longer than a connection takes the first answer is waited for, and others after a first one.
pub(super) const PATIENCE: Duration = Duration::from_millis(250);
/// Nodes asked at once.
const AT_ONCE: usize = 3;

/// Asks for the map as long as it runs.
pub(super) struct Asking {
    board: Arc<Board>,
    rounds: watch::Receiver<u64>,
    /// Connections to the nodes that were asked last.
    links: BTreeMap<Node, Link>,
}

/// What one node said: the latest epoch that it knows, and the map.
type Said = (u64, SlotMap);

// === impl Asking ===

impl Asking {
    pub(super) fn new(board: Arc<Board>) -> Self {
        let rounds = board.round.subscribe();
        Self { board, rounds, links: BTreeMap::new() }
    }

    pub(super) async fn run(mut self) {
        loop {
            let round = *self.rounds.borrow_and_update();
            let found = self.ask().await;
            self.board.note(round, found);
            sleep(PAUSE).await;
            let _ = timeout(SLOWLY.mul_f64(1.0 - fastrand::f64() / 4.0), self.rounds.changed()).await;
        }
    }

    /// Asks some nodes after others until one answers.
    async fn ask(&mut self) -> Result<SlotMap, String> {
        let mut whys = Vec::new();
        for some in self.candidates().chunks(AT_ONCE) {
            let links = some.iter().map(|node| {
                let link = self.links.remove(node).unwrap_or_else(|| Link::of_node(&self.board, node, false));
                (node.clone(), link)
            });
            self.links = links.collect();
            match latest(&self.links).await {
                Ok(map) => return Ok(map),
                Err(some) => whys.extend(some),
            }
        }
        Err(whys.join("; "))
    }

    /// The masters in any order, then those that the URL names.
    fn candidates(&self) -> Vec<Node> {
        let map = self.board.view.borrow().map.clone();
        let mut masters: Vec<Node> = map.iter().flat_map(|map| map.masters()).cloned().collect();
        fastrand::shuffle(&mut masters);
        let mut known = BTreeSet::new();
        let all = masters.into_iter().chain(self.board.url.nodes.iter().cloned());
        all.filter(|node| known.insert(node.clone())).collect()
    }
}

/// The map of the node that knows the latest epoch; or why none of them says one. The first answer does not wait long
/// for others.
async fn latest(links: &BTreeMap<Node, Link>) -> Result<SlotMap, Vec<String>> {
    let mut asked: FuturesUnordered<_> = links.iter().map(|(node, link)| said_by(node, link)).collect();
    let (mut best, mut whys): (Option<Said>, _) = (None, Vec::new());
    loop {
        let next = match &best {
            None => asked.next().await,
            Some(_) => timeout(PATIENCE, asked.next()).await.unwrap_or(None),
        };
        match next {
            None => return best.map(|(_, map)| map).ok_or(whys),
            Some(Ok(said)) if best.as_ref().is_none_or(|(epoch, _)| said.0 > *epoch) => best = Some(said),
            Some(Ok(_)) => {}
            Some(Err(why)) => whys.push(why),
        }
    }
}

async fn said_by(node: &Node, link: &Link) -> Result<Said, String> {
    let of = |error: Error| format!("node {node}: {error}");
    let mut pipeline = Pipeline::with_capacity(2);
    pipeline.cmd("CLUSTER").arg("INFO").cmd("CLUSTER").arg("SLOTS");
    let answers: Vec<Value> =
        link.pipeline(&pipeline).await.map_err(of)?.into_iter().collect::<Result<_, _>>().map_err(of)?;
    let [info, slots] = <[Value; 2]>::try_from(answers).expect("two answers to two commands");
    let info: String = from_redis_value(info).map_err(|error| format!("node {node}: {error}"))?;
    let epoch =
        info.lines().find_map(|line| line.trim().strip_prefix("cluster_current_epoch:")?.parse().ok());
    let map = SlotMap::read(slots, node).map_err(|why| format!("node {node}: {why}"))?;
    match map.masters() {
        [] => Err(format!("node {node} is of a cluster in which no node has a slot")),
        _ => Ok((epoch.unwrap_or(0), map)),
    }
}
