//! Joins masters to a Redis Cluster: each has a part of the slots, and all know each other.

use super::patience::Patience;
use super::ports::NodePorts;
use crate::failure::of_core;
use delayq::Error;
use delayq::protocol::Link;
use delayq_service::config::RedisConfig;
use delayq_service::{Fault, deployment};
use redis::{Cmd, FromRedisValue, cmd};

const SLOTS: usize = 16384;

/// Makes a cluster of these nodes, or the same cluster again.
pub(super) async fn form(
    nodes: &[NodePorts],
    redis: &RedisConfig,
    patience: &mut Patience<'_>,
) -> Result<(), Fault> {
    let links = nodes.iter().map(|node| link(node, redis)).collect::<Result<Vec<_>, Fault>>()?;
    for (i, link) in links.iter().enumerate() {
        if !has_slots(link, patience).await? {
            let (first, end) = (i * SLOTS / nodes.len(), (i + 1) * SLOTS / nodes.len());
            run::<()>(link, cmd("CLUSTER").arg("ADDSLOTSRANGE").arg(first).arg(end - 1))
                .await
                .map_err(of_core)?;
        }
    }
    // The ports may have changed since the last start, so the nodes meet each time.
    let Some((first, _)) = links.split_first() else { return Ok(()) };
    for node in &nodes[1..] {
        let mut meet = cmd("CLUSTER");
        meet.arg("MEET").arg("127.0.0.1").arg(node.client).arg(node.bus);
        run::<()>(first, &meet).await.map_err(of_core)?;
    }
    let known = format!("cluster_known_nodes:{}\r", nodes.len());
    for link in &links {
        loop {
            let info: String = run(link, cmd("CLUSTER").arg("INFO")).await.map_err(of_core)?;
            if info.contains("cluster_state:ok") && info.contains(&known) {
                break;
            }
            patience.wait("the nodes do not know each other yet").await?;
        }
    }
    Ok(())
}

fn link(node: &NodePorts, redis: &RedisConfig) -> Result<Link, Fault> {
    let url = format!("redis://127.0.0.1:{}", node.client).parse().expect("a valid URL of a Redis");
    let alone = RedisConfig { url, ..redis.clone() };
    let settings = deployment::link(&alone);
    settings.map(Link::new).map_err(|why| Fault::new(&delayq_service::codes::CONFIG_FAULTY, why))
}

/// Waits for the node's answer.
async fn has_slots(link: &Link, patience: &mut Patience<'_>) -> Result<bool, Fault> {
    loop {
        match run::<String>(link, cmd("CLUSTER").arg("NODES")).await {
            // The line of a node: id, address, flags, master, pings, epoch, state, and slots.
            Ok(nodes) => {
                let own = nodes.lines().find(|line| line.contains("myself"));
                return Ok(own.is_some_and(|own| own.split(' ').nth(8).is_some()));
            }
            Err(error) if error.is_outage() => patience.wait(&error.to_string()).await?,
            Err(error) => return Err(of_core(error)),
        }
    }
}

async fn run<T: FromRedisValue>(link: &Link, command: &Cmd) -> Result<T, Error> {
    let answer = link.run(command).await?;
    Ok(T::from_redis_value(answer).expect("Redis answers as documented"))
}
