//! Asking the nodes of a cluster for the slot map.

use super::known_slots::KnownSlots;
use super::slot_map::SlotMap;
use crate::error::Error;
use crate::link::{Link, Node};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use redis::{Pipeline, Value, from_redis_value};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

/// The pause between two rounds, regardless of the number of doubts.
const PAUSE: Duration = Duration::from_millis(50);
/// The maximum pause while doubts continue and bring nothing new: a dead node must not cause a flood of questions to
/// the live nodes.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// Refresh interval of the map without any doubt.
const SLOWLY: Duration = Duration::from_secs(20);
/// Extra time, beyond the time to connect, to wait for the first answer; also the time to wait for further answers
/// after a first answer, and the maximum pause between two rounds as long as no node has answered.
pub(super) const PATIENCE: Duration = Duration::from_millis(250);
/// Maximum number of nodes asked at once.
const AT_ONCE: usize = 3;

pub(super) struct Asking {
    slots: Arc<KnownSlots>,
    rounds: watch::Receiver<u64>,
    links: BTreeMap<Node, Link>,
}

type Why = (Node, Error);

/// The latest epoch known to the node, and the map.
type Said = (u64, SlotMap);

// === impl Asking ===

impl Asking {
    pub(super) fn new(slots: Arc<KnownSlots>) -> Self {
        let rounds = slots.round.subscribe();
        Self { slots, rounds, links: BTreeMap::new() }
    }

    pub(super) async fn run(mut self) {
        let (mut views, mut pause) = (self.slots.views(), PAUSE);
        loop {
            let round = *self.rounds.borrow_and_update();
            let before = views.borrow().version;
            let found = self.ask().await;
            self.slots.note(round, found);
            let version = views.borrow_and_update().version;
            sleep(PAUSE).await;
            // A node that redirects a slot has news, and the other nodes may have more.
            let news = views.wait_for(|view| view.version != version);
            let is_news = timeout(pause - PAUSE, news).await.is_ok() || version != before;
            let in_doubt = self.rounds.has_changed().unwrap_or(false);
            // Without a map, callers wait for this round.
            let longest = if views.borrow().map.is_some() { LONGEST_PAUSE } else { PATIENCE };
            pause = if in_doubt && !is_news { longest.min(2 * pause) } else { PAUSE };
            let _ = timeout(SLOWLY.mul_f64(1.0 - fastrand::f64() / 4.0), self.rounds.changed()).await;
        }
    }

    /// Asks the nodes in batches until one node answers.
    ///
    /// # Errors
    /// Every node's failure: [`Error::Unfit`] if all that answered refuse for good.
    async fn ask(&mut self) -> Result<SlotMap, Error> {
        let (candidates, mut whys) = (self.candidates(), Vec::new());
        self.links.retain(|node, _| candidates.contains(node));
        for some in candidates.chunks(AT_ONCE) {
            for node in some {
                let link = || self.slots.link(node, false);
                self.links.entry(node.clone()).or_insert_with(link);
            }
            match latest(some.iter().map(|node| (node, &self.links[node]))).await {
                Ok(map) => return Ok(map),
                Err(some) => whys.extend(some),
            }
        }
        Err(none_says(self.slots.settings().address(), &whys))
    }

    /// The masters in random order, then the nodes of the URL.
    fn candidates(&self) -> Vec<Node> {
        let map = self.slots.view.borrow().map.clone();
        let mut masters: Vec<Node> = map.iter().flat_map(|map| map.masters()).cloned().collect();
        fastrand::shuffle(&mut masters);
        let mut known = BTreeSet::new();
        let all = masters.into_iter().chain(self.slots.url.nodes.iter().cloned());
        all.filter(|node| known.insert(node.clone())).collect()
    }
}

/// The map of the node with the latest epoch, or every node's failure. After a first answer, the wait for
/// further answers is short.
async fn latest<'n>(links: impl Iterator<Item = (&'n Node, &'n Link)>) -> Result<SlotMap, Vec<Why>> {
    let said = |(node, link)| async move { said_by(node, link).await.map_err(|error| (node.clone(), error)) };
    let mut asked: FuturesUnordered<_> = links.map(said).collect();
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

async fn said_by(node: &Node, link: &Link) -> Result<Said, Error> {
    let mut pipeline = Pipeline::with_capacity(2);
    pipeline.cmd("CLUSTER").arg("INFO").cmd("CLUSTER").arg("SLOTS");
    let answers: Vec<Value> = link.pipeline(&pipeline).await?.into_iter().collect::<Result<_, _>>()?;
    let [info, slots] = <[Value; 2]>::try_from(answers).expect("two answers to two commands");
    let info: String = from_redis_value(info).map_err(|error| Error::Unfit(error.to_string()))?;
    let epoch =
        info.lines().find_map(|line| line.trim().strip_prefix("cluster_current_epoch:")?.parse().ok());
    let map = SlotMap::read(slots, node).map_err(Error::Unfit)?;
    match map.masters() {
        [] => {
            let why = "it is of a cluster without slots".to_owned();
            Err(Error::Unreachable { address: node.to_string(), why })
        }
        _ => Ok((epoch.unwrap_or(0), map)),
    }
}

/// A refusal by every answering node is permanent.
fn none_says(address: String, whys: &[Why]) -> Error {
    let each: Vec<String> = whys.iter().map(|(node, error)| format!("node {node}: {error}")).collect();
    let why = each.join("; ");
    let mut answered = whys.iter().map(|(_, error)| error).filter(|error| !error.is_silence()).peekable();
    if answered.peek().is_none() || answered.any(Error::is_outage) {
        return Error::Unreachable { address, why };
    }
    let is_denied = |(_, error): &Why| matches!(error, Error::Redis { code, .. } if code == "NOPERM");
    let advice = match whys.iter().any(is_denied) {
        true => "allow it in the ACL (delayq acl print shows all)",
        false => "if this Redis is not of a cluster, write redis://",
    };
    Error::Unfit(format!("{why}: {advice}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(code: &str) -> Error {
        Error::Redis { code: code.to_owned(), detail: "detail".to_owned() }
    }

    fn silent() -> Error {
        Error::Unreachable { address: "a:1".to_owned(), why: "silent".to_owned() }
    }

    #[test]
    fn only_what_all_refuse_that_answer_is_for_good() {
        for (errors, is_outage, named) in [
            (vec![silent(), silent()], true, "node a:0"),
            (vec![silent(), refused("NOPERM")], false, "delayq acl print"),
            (vec![refused("ERR"), refused("ERR")], false, "redis://"),
            (vec![refused("ERR"), refused("LOADING")], true, "node a:1"),
            (Vec::new(), true, "somewhere"),
        ] {
            let named_nodes = errors.into_iter().zip(0..).map(|(error, n)| (Node::new("a", n), error));
            let error = none_says("somewhere".to_owned(), &named_nodes.collect::<Vec<_>>());
            assert_eq!(error.is_outage(), is_outage, "{error}");
            assert!(error.to_string().contains(named), "{error}");
        }
    }
}
