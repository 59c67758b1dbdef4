//! A Redis Cluster of three masters, optionally with a replica each, whose slots a test can move.

use crate::certs::Authority;
use crate::clock_shim::ClockShim;
use crate::deadline::{LONG, wait_for, wait_until, within};
use crate::redis_server::{NODE_TIMEOUT_MS, RedisOptions, RedisServer};
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::Duration;

const SLOTS: usize = 16384;
/// Keys that a node hands over per command.
const A_STEP: &str = "500";
/// Silence after which a node counts as dead while a test waits for that.
const QUICK_TIMEOUT_MS: &str = "1500";
/// Duration of an ordered failover. (A replica gives up after five seconds, which a busy machine may need.)
const ORDERED: Duration = Duration::from_secs(8);

/// A cluster of three masters, optionally with replicas.
#[derive(Debug)]
pub struct RedisCluster {
    /// The first three start as masters, each with a third of the slots; then their replicas in the same order, if any.
    pub nodes: Vec<RedisServer>,
}

// === impl RedisCluster ===

impl RedisCluster {
    /// Starts three masters without replicas.
    pub async fn start() -> Self {
        Self::start_with(RedisOptions::default()).await
    }

    /// Starts three masters with a replica each. A replica takes over after ten seconds of silence, or when ordered by
    /// [`Self::take_over`] or [`Self::fail_over`]: a merely busy machine causes no failover.
    pub async fn with_replicas() -> Self {
        Self::with_replicas_of(RedisOptions::default()).await
    }

    /// As [`Self::with_replicas`], with these options.
    pub async fn with_replicas_of(options: RedisOptions) -> Self {
        // Otherwise a replica waits five seconds for others before receiving the data.
        let options = options.set("repl-diskless-sync-delay", "0");
        Self::start_each(6, |_| options.clone()).await
    }

    /// As [`Self::with_replicas`]; each node also accepts TLS, at [`Self::tls_url`], with certificates of this
    /// authority, and nodes use only TLS among themselves.
    pub async fn with_tls(authority: &Authority) -> Self {
        let certificate = authority.server();
        let options = |_| {
            let options = RedisOptions::default().set("repl-diskless-sync-delay", "0");
            let options = options.tls(&certificate, authority, false);
            options.set("tls-cluster", "yes").tls_between()
        };
        Self::start_each(6, options).await
    }

    /// Starts three masters without replicas, with these options.
    pub async fn start_with(options: RedisOptions) -> Self {
        Self::start_each(3, |_| options.clone()).await
    }

    /// Starts three masters without replicas, each with its own clock.
    pub async fn with_clocks(clocks: &[ClockShim; 3]) -> Self {
        Self::start_each(3, |n| RedisOptions::default().clock(&clocks[n])).await
    }

    /// Starts three masters, then their replicas, each with its options.
    async fn start_each(count: usize, options: impl Fn(usize) -> RedisOptions) -> Self {
        let mut cluster = Self { nodes: Vec::new() };
        for n in 0..count {
            let options = options(n).cluster_node().set("cluster-require-full-coverage", "no");
            let options = options.set("cluster-replica-validity-factor", "0");
            let options = options.set("cluster-node-timeout", NODE_TIMEOUT_MS);
            cluster.nodes.push(RedisServer::start_with(options).await);
        }
        cluster.meet().await;
        for replica in 3..count {
            let master: String = cluster.nodes[replica % 3].command(&["CLUSTER", "MYID"]).await;
            cluster.nodes[replica].command::<()>(&["CLUSTER", "REPLICATE", &master]).await;
        }
        cluster.replicated().await;
        cluster.settled().await;
        cluster
    }

    /// Completes a Redis that was restarted as a cluster node and has taken the slots of its keys: takes the remaining
    /// slots.
    pub async fn of_one(node: RedisServer) -> Self {
        let cluster = Self { nodes: vec![node] };
        cluster.fix(&[]);
        cluster.settled().await;
        cluster
    }

    /// Gives the slots of a killed master without a replica to the others, as an operator does.
    pub async fn give_up(&mut self, killed: usize) {
        let killed = format!(" {}@", self.nodes.remove(killed).address());
        self.fix(&["--cluster-fix-with-unreachable-masters"]);
        // A node that has neither been told nor noticed the death reports the dead node's slots as served.
        wait_until("the others to have the slots", LONG, async || {
            for node in &self.nodes {
                let nodes: String = node.try_command(&["CLUSTER", "NODES"]).await.unwrap_or_default();
                let has_slots = |line: &str| line.contains(&killed) && line.split(' ').count() > 8;
                if nodes.is_empty() || nodes.lines().any(has_slots) {
                    return false;
                }
            }
            true
        })
        .await;
        self.covered(self.nodes.len() + 1).await;
    }

    fn fix(&self, options: &[&str]) {
        let mut fix = Command::new("redis-cli");
        fix.args(["--cluster", "fix", &self.nodes[0].address()]).args(options);
        let mut fix = fix.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("redis-cli is started");
        // Confirms the question whether to cover the slots.
        let _ = fix.stdin.take().expect("it is piped").write_all(b"yes\n");
        fix.wait().expect("redis-cli ends");
    }

    /// Adds two masters without slots.
    pub async fn add_two(&mut self) {
        for _ in 0..2 {
            let node = RedisServer::start_with(self.nodes[0].options().clone()).await;
            let (port, bus) = (node.port().to_string(), node.bus_port().to_string());
            self.nodes[0].command::<()>(&["CLUSTER", "MEET", "127.0.0.1", &port, &bus]).await;
            self.nodes.push(node);
        }
        self.settled().await;
    }

    async fn meet(&self) {
        for (i, node) in self.nodes.iter().enumerate() {
            node.command::<()>(&["CLUSTER", "SET-CONFIG-EPOCH", &(i + 1).to_string()]).await;
            if i < 3 {
                let (first, last) = (i * SLOTS / 3, (i + 1) * SLOTS / 3 - 1);
                let (first, last) = (first.to_string(), last.to_string());
                node.command::<()>(&["CLUSTER", "ADDSLOTSRANGE", &first, &last]).await;
            }
            let (port, bus) = (node.port().to_string(), node.bus_port().to_string());
            self.nodes[0].command::<()>(&["CLUSTER", "MEET", "127.0.0.1", &port, &bus]).await;
        }
        self.settled().await;
    }

    /// Waits until every node runs, knows all others, and reports every slot as served.
    pub async fn settled(&self) {
        self.covered(self.nodes.len()).await;
    }

    /// Waits until every node but three masters follows its master.
    pub async fn replicated(&self) {
        wait_until("the replicas to follow", LONG, async || {
            let mut followers = 0;
            for node in &self.nodes {
                followers += node.followers().await;
            }
            followers == self.nodes.len() - 3
        })
        .await;
    }

    /// Waits until each node assigns every slot to one of `known` nodes.
    async fn covered(&self, known: usize) {
        wait_until("the nodes of the cluster to know each other", LONG, async || {
            for node in &self.nodes {
                let info: String = node.try_command(&["CLUSTER", "INFO"]).await.unwrap_or_default();
                let known = format!("cluster_known_nodes:{known}\r");
                let whole = info.contains("cluster_state:ok") && info.contains("cluster_slots_ok:16384");
                if !whole || !info.contains(&known) {
                    return false;
                }
            }
            true
        })
        .await;
    }

    /// The URL with the first three nodes.
    #[must_use]
    pub fn url(&self) -> String {
        let nodes: Vec<String> = self.nodes.iter().take(3).map(|node| node.address()).collect();
        format!("redis+cluster://{}", nodes.join(","))
    }

    /// The TLS URL with the first three nodes.
    #[must_use]
    pub fn tls_url(&self) -> String {
        let nodes: Vec<String> =
            self.nodes[..3].iter().map(|node| node.tls_url().replace("rediss://", "")).collect();
        format!("rediss+cluster://{}", nodes.join(","))
    }

    /// The slot of a key.
    pub async fn slot(&self, key: &str) -> u16 {
        self.any().await.command(&["CLUSTER", "KEYSLOT", key]).await
    }

    /// The owner of a slot, once there is one: during a failover a slot may have no owner.
    pub async fn master_of(&self, slot: u16) -> usize {
        wait_for(&format!("a master of slot {slot}"), LONG, async || self.find_master(slot).await).await
    }

    /// According to the first node that answers.
    async fn find_master(&self, slot: u16) -> Option<usize> {
        let words = ["CLUSTER", "SLOTS"];
        let ranges: Vec<Vec<redis::Value>> = self.any().await.try_command(&words).await.ok()?;
        let port = ranges.into_iter().find_map(|range| {
            let number = |i: usize| redis::from_redis_value::<u16>(range[i].clone()).expect("a slot");
            let master: Vec<redis::Value> = redis::from_redis_value(range[2].clone()).expect("a node");
            let port: u16 = redis::from_redis_value(master[1].clone()).expect("a port");
            (number(0)..=number(1)).contains(&slot).then_some(port)
        })?;
        Some(self.nodes.iter().position(|node| node.port() == port).expect("it is one of the nodes"))
    }

    /// Moves a slot to another node, as `redis-cli --cluster reshard` does.
    pub async fn move_slot(&self, slot: u16, to: usize) {
        let from = self.begin_move(slot, to).await;
        while self.carry(slot, from, to).await > 0 {}
        self.end_move(slot, from, to).await;
    }

    /// Begins to move a slot: from now on scripts of its shards are refused. Returns the source node.
    pub async fn begin_move(&self, slot: u16, to: usize) -> usize {
        let (from, number) = (self.master_of(slot).await, slot.to_string());
        let (source, target) = (&self.nodes[from], &self.nodes[to]);
        let (source_id, target_id): (String, String) =
            (source.command(&["CLUSTER", "MYID"]).await, target.command(&["CLUSTER", "MYID"]).await);
        target.command::<()>(&["CLUSTER", "SETSLOT", &number, "IMPORTING", &source_id]).await;
        source.command::<()>(&["CLUSTER", "SETSLOT", &number, "MIGRATING", &target_id]).await;
        from
    }

    /// Moves some keys of a slot in migration; returns the number.
    pub async fn carry(&self, slot: u16, from: usize, to: usize) -> usize {
        let source = &self.nodes[from];
        let keys: Vec<Vec<u8>> =
            source.command(&["CLUSTER", "GETKEYSINSLOT", &slot.to_string(), A_STEP]).await;
        if !keys.is_empty() {
            let mut migrate = redis::cmd("MIGRATE");
            migrate
                .arg("127.0.0.1")
                .arg(self.nodes[to].port())
                .arg("")
                .arg(0)
                .arg(60_000)
                .arg("KEYS")
                .arg(&keys);
            let mut connection = source.connect().await;
            let carried: String = migrate.query_async(&mut connection).await.expect("the keys are carried");
            assert_eq!(carried, "OK");
        }
        keys.len()
    }

    /// Ends the move of a slot: assigns it to the target node, and removes it from the source. Every master is told: a
    /// master that learns from the cluster bus may see a newer epoch of the source first, and would return the slot,
    /// empty.
    pub async fn end_move(&self, slot: u16, from: usize, to: usize) {
        let (number, id): (_, String) =
            (slot.to_string(), self.nodes[to].command(&["CLUSTER", "MYID"]).await);
        let others = self.masters().await.into_iter().filter(|node| ![from, to].contains(node));
        for node in [to, from].into_iter().chain(others) {
            self.nodes[node].command::<()>(&["CLUSTER", "SETSLOT", &number, "NODE", &id]).await;
        }
    }

    /// Empties a node by moving all its slots to another: slots with keys as [`Self::move_slot`] does, then the rest at
    /// once. Returns the number.
    pub async fn empty(&self, from: usize, to: usize) -> usize {
        let (source, slots) = (&self.nodes[from], self.slots_of(from).await);
        let mut count = redis::pipe();
        for slot in &slots {
            count.cmd("CLUSTER").arg("COUNTKEYSINSLOT").arg(slot);
        }
        let keys: Vec<u64> =
            count.query_async(&mut source.connect().await).await.expect("the node counts keys");
        for (slot, _) in slots.iter().zip(&keys).filter(|(_, keys)| **keys > 0) {
            self.move_slot(*slot, to).await;
        }
        let id: String = self.nodes[to].command(&["CLUSTER", "MYID"]).await;
        let mut give = redis::pipe();
        for (slot, _) in slots.iter().zip(&keys).filter(|(_, keys)| **keys == 0) {
            give.cmd("CLUSTER").arg("SETSLOT").arg(slot).arg("NODE").arg(&id).ignore();
        }
        let given = give.query_async::<()>(&mut self.nodes[to].connect().await).await;
        assert!(given.is_ok(), "the node takes them");
        // The source may already know from the target, and refuses because it is a replica now.
        let _ = give.query_async::<()>(&mut source.connect().await).await;
        let gone = async || self.slots_of(from).await.is_empty();
        wait_until("the emptied node to have no slots", LONG, gone).await;
        slots.len()
    }

    /// Stops a node without slots, and makes the others forget it.
    pub async fn remove(&mut self, node: usize) {
        let mut removed = self.nodes.remove(node);
        let id: String = removed.command(&["CLUSTER", "MYID"]).await;
        removed.stop().await;
        for other in &self.nodes {
            other.command::<()>(&["CLUSTER", "FORGET", &id]).await;
        }
        self.settled().await;
    }

    async fn slots_of(&self, node: usize) -> Vec<u16> {
        let id: String = self.nodes[node].command(&["CLUSTER", "MYID"]).await;
        let nodes: String = self.any().await.command(&["CLUSTER", "NODES"]).await;
        let line = nodes.lines().find(|line| line.starts_with(&id)).expect("it knows the node");
        let ranges = line.split(' ').skip(8).filter_map(|range| {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            Some(first.parse::<u16>().ok()?..=last.parse().ok()?)
        });
        ranges.flatten().collect()
    }

    /// Waits until another node owns a slot; returns the node.
    pub async fn master_after(&self, former: usize, slot: u16) -> usize {
        wait_for("another master", LONG, async || {
            let master = self.find_master(slot).await?;
            (master != former && self.nodes[master].field("role").await == "master").then_some(master)
        })
        .await
    }

    /// Lets the replica of a killed master take over within seconds; returns the slot's new owner, then restores the
    /// patient timeout.
    pub async fn take_over(&self, killed: usize, slot: u16) -> usize {
        self.set_timeout_ms(QUICK_TIMEOUT_MS).await;
        let master = self.master_after(killed, slot).await;
        self.set_timeout_ms(NODE_TIMEOUT_MS).await;
        master
    }

    /// Makes the replica of the slot's owner take over, by `CLUSTER FAILOVER` of this kind (`FORCE`, `TAKEOVER`, or
    /// neither); returns the new owner.
    pub async fn fail_over(&self, slot: u16, kind: Option<&str>) -> usize {
        let former = self.master_of(slot).await;
        let replica = (former + 3) % 6;
        let follows = async || self.nodes[former].followers().await == 1;
        wait_until("the replica to follow", LONG, follows).await;
        let words: Vec<&str> = ["CLUSTER", "FAILOVER"].into_iter().chain(kind).collect();
        let ordered = async {
            loop {
                let _ = self.nodes[replica].try_command::<()>(&words).await;
                let after = self.master_after(former, slot);
                if let Ok(master) = tokio::time::timeout(ORDERED, after).await {
                    return master;
                }
            }
        };
        // Nodes vote for replicas of the same master once in two timeouts.
        self.set_timeout_ms(QUICK_TIMEOUT_MS).await;
        let master = within("the failover", LONG, ordered).await;
        self.set_timeout_ms(NODE_TIMEOUT_MS).await;
        master
    }

    async fn set_timeout_ms(&self, ms: &str) {
        for node in &self.nodes {
            let _ = node.try_command::<()>(&["CONFIG", "SET", "cluster-node-timeout", ms]).await;
        }
    }

    /// The masters, while all nodes run.
    pub async fn masters(&self) -> Vec<usize> {
        let mut masters = Vec::new();
        for (n, node) in self.nodes.iter().enumerate() {
            if node.field("role").await == "master" {
                masters.push(n);
            }
        }
        masters
    }

    /// All matching keys of the cluster, repeated for each master that has the key.
    pub async fn keys(&self, pattern: &str) -> Vec<Vec<u8>> {
        let mut all = Vec::new();
        for node in &self.nodes {
            if node.field("role").await == "master" {
                all.extend(node.command::<Vec<Vec<u8>>>(&["KEYS", pattern]).await);
            }
        }
        all
    }

    /// The last node that answers: replicas, listed after the masters, know of a failover as soon as they win.
    async fn any(&self) -> &RedisServer {
        for node in self.nodes.iter().rev() {
            if node.try_command::<String>(&["PING"]).await.is_ok() {
                return node;
            }
        }
        panic!("no node of the cluster answers");
    }
}
