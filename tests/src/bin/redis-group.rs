//! Groups of Redises for the tests of clients in other languages: `redis-group sentinel`, `redis-group cluster`;
//! `redis-group replica [PROGRAM]`, a master and a replica with append-only files; or `redis-group nodes`, a deployment
//! of eight shards on the node `a`, and an empty Redis for a node `b`.
//!
//! Prints the URL in a line (of nodes: both), then carries out each line of input, and prints `done`:
//!
//! | line | effect |
//! | --- | --- |
//! | `kill KEY` | kills the key's master once its replicas have all its data; done when another has taken over |
//! | `freeze KEY`, `thaw KEY` | stops (SIGSTOP) and resumes the key's master (of `replica`: the replica); `thaw` resumes the last frozen |
//! | `move KEY` | moves the key's slot to another master of the cluster, and the next time back; waits midway until scripts were refused, so a client has to send some |
//! | `shards LIST` | moves these shards from node `a` to node `b` with `delayq shards move` |
//!
//! Ends with its input, together with its servers.

use delayq_tests::binary::Binary;
use delayq_tests::deadline::{LONG, wait_until};
use delayq_tests::deployment::{created, settings};
use delayq_tests::folder::Folder;
use delayq_tests::redis_cluster::RedisCluster;
use delayq_tests::redis_nodes::section;
use delayq_tests::redis_server::{RedisOptions, RedisServer, replicated};
use delayq_tests::sentinel_group::SentinelGroup;
use std::collections::HashMap;

struct Group {
    servers: Servers,
    homes: HashMap<u16, usize>,
    frozen: Option<usize>,
}

enum Servers {
    Sentinel(SentinelGroup),
    Cluster(RedisCluster),
    Replica(Vec<RedisServer>),
    Nodes(Vec<RedisServer>),
}

const SHARDS: u16 = 8;

#[tokio::main]
async fn main() {
    let kind = std::env::args().nth(1);
    let servers = match kind.as_deref() {
        Some("sentinel") => Servers::Sentinel(SentinelGroup::start().await),
        Some("cluster") => Servers::Cluster(RedisCluster::with_replicas().await),
        Some("replica") => Servers::Replica(pair(std::env::args().nth(2)).await),
        Some("nodes") => Servers::Nodes(nodes().await),
        _ => panic!("expected: redis-group sentinel, cluster, nodes or replica [PROGRAM]"),
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
            Some(("shards", list)) => group.move_shards(list).await,
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
            Servers::Nodes(nodes) => format!("{} {}", nodes[0].url(), nodes[1].url()),
        }
    }

    fn all(&mut self) -> &mut Vec<RedisServer> {
        match &mut self.servers {
            Servers::Sentinel(group) => &mut group.redises,
            Servers::Cluster(cluster) => &mut cluster.nodes,
            Servers::Replica(pair) | Servers::Nodes(pair) => pair,
        }
    }

    async fn master(&self, key: &str) -> usize {
        match &self.servers {
            Servers::Sentinel(group) => group.master().await,
            Servers::Cluster(cluster) => cluster.master_of(cluster.slot(key).await).await,
            Servers::Replica(_) | Servers::Nodes(_) => 0,
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
                // Restarted as a replica, so that the next master may be killed too.
                cluster.nodes[former].resume().await;
            }
            Servers::Replica(_) | Servers::Nodes(_) => {
                panic!("nobody takes over from a master without sentinels")
            }
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

    async fn move_shards(&self, list: &str) {
        let Servers::Nodes(nodes) = &self.servers else { panic!("only a deployment has shards") };
        let [a, b] = &nodes[..] else { panic!("there are two") };
        let row = |name: &str, url: String, shards: &str| [name.to_owned(), url, shards.to_owned()];
        let rows = [row("a", a.url(), &format!("0-{}", SHARDS - 1)), row("b", b.url(), "")];
        let folder = Folder::new("nodes");
        let file = folder.join("delayq.toml");
        let text = format!("[deployment]\nshards = {SHARDS}\n{}", section(&rows));
        std::fs::write(&file, text).expect("its folder takes a file");
        let delayq = async |args: &[&str]| {
            let done = Binary::new("delayq").arg("--config").arg(&file).args(args).run(b"", LONG).await;
            assert_eq!(done.code, Some(0), "{args:?}: {done:?}");
        };
        delayq(&["shards", "name"]).await;
        b.command::<()>(&["REPLICAOF", "127.0.0.1", &a.port().to_string()]).await;
        let copied = async || b.field("master_link_status").await == "up";
        wait_until("the new node to have a copy", LONG, copied).await;
        delayq(&["shards", "move", list, "--to", "b", "--yes"]).await;
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

/// Two Redises with persistence; the first holds a deployment.
async fn nodes() -> Vec<RedisServer> {
    let options = RedisOptions::default().append_only("everysec").set("repl-diskless-sync-delay", "0");
    let nodes = vec![RedisServer::start_with(options.clone()).await, RedisServer::start_with(options).await];
    drop(created(settings(nodes[0].url(), SHARDS)).await);
    nodes
}

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

async fn refused(server: &RedisServer, code: &str) -> u64 {
    let count = server.field(&format!("errorstat_{code}")).await;
    count.strip_prefix("count=").and_then(|count| count.parse().ok()).unwrap_or(0)
}
