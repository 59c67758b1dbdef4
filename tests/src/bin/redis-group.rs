//! Several Redises that belong together, for the tests of clients in other languages: `redis-group sentinel`,
//! `redis-group cluster`, or `redis-group replica [PROGRAM]`, a master with one replica that keep append-only files.
//!
//! It prints their URL in a line. Then it does what each line of its input says, and prints `done`:
//!
//! | line | what is done |
//! | --- | --- |
//! | `kill KEY` | the master that has the key is killed once its replicas have all that it has; done when another has taken over |
//! | `freeze KEY`, `thaw KEY` | it (of `replica`, the replica) is stopped (SIGSTOP), and goes on; the second is for the one that was frozen last |
//! | `move KEY` | the key's slot goes to another master of the cluster, and the next time back; on its way it waits until scripts were refused, so somebody has to send some |
//!
//! It ends with its input, and its servers with it.

use delayq_tests::deadline::{LONG, wait_until};
use delayq_tests::redis_cluster::RedisCluster;
use delayq_tests::redis_server::{RedisOptions, RedisServer, replicated};
use delayq_tests::sentinel_group::SentinelGroup;
use std::collections::HashMap;

struct Group {
    servers: Servers,
    /// Where slots were that have been moved.
    homes: HashMap<u16, usize>,
    frozen: Option<usize>,
}

enum Servers {
    Sentinel(SentinelGroup),
    Cluster(RedisCluster),
    /// The master, and its replica.
    Replica(Vec<RedisServer>),
}

#[tokio::main]
async fn main() {
    let kind = std::env::args().nth(1);
    let servers = match kind.as_deref() {
        Some("sentinel") => Servers::Sentinel(SentinelGroup::start().await),
        Some("cluster") => Servers::Cluster(RedisCluster::with_replicas().await),
        Some("replica") => Servers::Replica(pair(std::env::args().nth(2)).await),
        _ => panic!("expected: redis-group sentinel, redis-group cluster or redis-group replica [PROGRAM]"),
    };
    let mut group = Group { servers, homes: HashMap::new(), frozen: None };
    println!("{}", group.url());
    for line in std::io::stdin().lines() {
        let line = line.expect("its input is text");
        match line.split_once(' ') {
            Some(("kill", key)) => group.kill(key).await,
            Some(("freeze", key)) => group.freeze(key).await,
            Some(("thaw", _)) => group.thaw(),
            Some(("move", key)) => group.move_slot(key).await,
            _ => panic!("`{line}` is no command"),
        }
        println!("done");
    }
}

// === impl Group ===

impl Group {
    fn url(&self) -> String {
        match &self.servers {
            Servers::Sentinel(group) => group.url(),
            Servers::Cluster(cluster) => cluster.url(),
            Servers::Replica(pair) => pair[0].url(),
        }
    }

    fn all(&mut self) -> &mut Vec<RedisServer> {
        match &mut self.servers {
            Servers::Sentinel(group) => &mut group.redises,
            Servers::Cluster(cluster) => &mut cluster.nodes,
            Servers::Replica(pair) => pair,
        }
    }

    async fn master(&self, key: &str) -> usize {
        match &self.servers {
            Servers::Sentinel(group) => group.master().await,
            Servers::Cluster(cluster) => cluster.master_of(cluster.slot(key).await).await,
            Servers::Replica(_) => 0,
        }
    }

    async fn kill(&mut self, key: &str) {
        let former = self.master(key).await;
        let servers = self.all();
        replicated(servers, former).await;
        servers[former].kill().await;
        match &mut self.servers {
            Servers::Sentinel(group) => drop(group.master_after(former).await),
            Servers::Cluster(cluster) => {
                cluster.take_over(former, cluster.slot(key).await).await;
                // Back as a replica, so that the next one may be killed too.
                cluster.nodes[former].resume().await;
            }
            Servers::Replica(_) => panic!("nobody takes over from a master without sentinels"),
        }
    }

    async fn freeze(&mut self, key: &str) {
        let which = match self.servers {
            Servers::Replica(_) => 1,
            _ => self.master(key).await,
        };
        self.all()[which].freeze();
        self.frozen = Some(which);
    }

    fn thaw(&mut self) {
        let frozen = self.frozen.take().expect("one was frozen before");
        self.all()[frozen].thaw();
    }

    async fn move_slot(&mut self, key: &str) {
        let Servers::Cluster(cluster) = &self.servers else { panic!("only a cluster has slots") };
        let slot = cluster.slot(key).await;
        let home = cluster.master_of(slot).await;
        let to = match self.homes.remove(&slot) {
            Some(home) => home,
            None => {
                self.homes.insert(slot, home);
                cluster.masters().await.into_iter().find(|&node| node != home).expect("there are three")
            }
        };
        let from = cluster.begin_move(slot, to).await;
        for refusal in ["TRYAGAIN", "ASK"] {
            let source = &cluster.nodes[from];
            let before = refused(source, refusal).await;
            let more = async || refused(source, refusal).await > before;
            wait_until("a script to be refused", LONG, more).await;
            while cluster.carry(slot, from, to).await > 0 {}
        }
        cluster.end_move(slot, from, to).await;
    }
}

/// A master and its replica, of redis-server or of another program.
async fn pair(program: Option<String>) -> Vec<RedisServer> {
    let options = RedisOptions::default().append_only("always");
    let options = match program {
        Some(path) => options.program(path.into()),
        None => options,
    };
    let master = RedisServer::start_with(options).await;
    let replica = master.replica().await;
    vec![master, replica]
}

/// How often a server has answered with this error.
async fn refused(server: &RedisServer, code: &str) -> u64 {
    let count = server.field(&format!("errorstat_{code}")).await;
    count.strip_prefix("count=").and_then(|count| count.parse().ok()).unwrap_or(0)
}
