//! Durability: what topics ask for, and whether the Redis can confirm it.

use super::Check;
use crate::deployment::Context;
use delayq::admin::{Durability, NodeFacts};
use delayq::{Error, Topic};

const WHAT: &str = "durability";

/// What topics ask for; nothing where they ask for nothing.
pub(super) async fn checks(context: &Context) -> Vec<Check> {
    let admin = context.admin();
    let seen = async {
        let nodes: Vec<NodeFacts> = admin.check_each_node().await?.into_iter().flatten().collect();
        let mut asked = Vec::new();
        for topic in admin.topics().await? {
            match admin.policy(&topic).await?.durability {
                None | Some(Durability::Memory) => {}
                Some(durability) => asked.push((topic, durability)),
            }
        }
        Ok::<_, Error>((nodes, asked))
    };
    match seen.await {
        Ok((_, asked)) if asked.is_empty() => Vec::new(),
        Ok((nodes, asked)) => judge(&nodes, &asked),
        Err(error) => vec![Check::bad(WHAT, error.to_string(), "repair what it names, and try again")],
    }
}

/// A check for each topic that asks for more than a node can confirm, or else one for all.
fn judge(nodes: &[NodeFacts], asked: &[(Topic, Durability)]) -> Vec<Check> {
    let missing = |(topic, durability): &(Topic, Durability)| {
        let (node, why) =
            nodes.iter().find_map(|node| Some((node, node.facts.confirms(*durability).err()?)))?;
        let found = format!("{topic} asks for {durability}: {why} at {}", node.address);
        let advice = format!(
            "until then its writes are unknown: repair it, or delayq topic set {topic} --durability memory"
        );
        Some(Check::bad(WHAT, found, advice))
    };
    let bad: Vec<Check> = asked.iter().filter_map(missing).collect();
    if !bad.is_empty() {
        return bad;
    }
    let each: Vec<String> = asked.iter().map(|(topic, durability)| format!("{topic} {durability}")).collect();
    let guarded = nodes.iter().all(|node| node.facts.min_replicas_seen.is_some());
    let guard = if guarded { "set" } else { "not set" };
    vec![Check::good(WHAT, format!("{}; min-replicas-to-write is {guard}", each.join(", ")))]
}
