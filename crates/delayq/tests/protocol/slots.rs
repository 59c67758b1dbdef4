//! A shard's slot in migration: each node refuses every script as a whole, and nothing is written.

use crate::action::{Action, Item, Reserve};
use crate::bare_shard::{BareShard, NOW};
use delayq::protocol::{Scripts, Verb};
use delayq_tests::deadline::{SHORT, wait_for};
use delayq_tests::redis_server::{RedisOptions, RedisServer, SharedRedis};
use redis::Value;
use redis::aio::MultiplexedConnection;
use std::sync::Arc;

const SHARD: &str = "{s:0}";

struct Pair {
    source: RedisServer,
    target: RedisServer,
    slot: String,
}

// === impl Pair ===

impl Pair {
    async fn start() -> Self {
        let source = RedisServer::start_with(RedisOptions::default().cluster()).await;
        let target = RedisServer::start_with(RedisOptions::default().cluster()).await;
        target.command::<()>(&["CLUSTER", "FLUSHSLOTS"]).await;
        let (port, bus_port) = (source.port().to_string(), source.bus_port().to_string());
        target.command::<()>(&["CLUSTER", "MEET", "127.0.0.1", &port, &bus_port]).await;
        let id: String = source.command(&["CLUSTER", "MYID"]).await;
        wait_for("the nodes to know whose the slots are", SHORT, || async {
            let info: String = target.command(&["CLUSTER", "INFO"]).await;
            let nodes: String = target.command(&["CLUSTER", "NODES"]).await;
            let back: String = source.command(&["CLUSTER", "NODES"]).await;
            let knows = nodes.lines().any(|line| line.starts_with(&id) && line.ends_with("0-16383"));
            (knows && info.contains("cluster_state:ok") && back.lines().count() == 2).then_some(())
        })
        .await;
        let slot: u64 = source.command(&["CLUSTER", "KEYSLOT", &format!("{SHARD}:meta")]).await;
        Self { source, target, slot: slot.to_string() }
    }

    async fn begin(&self) {
        let from: String = self.source.command(&["CLUSTER", "MYID"]).await;
        let to: String = self.target.command(&["CLUSTER", "MYID"]).await;
        self.target.command::<()>(&["CLUSTER", "SETSLOT", &self.slot, "IMPORTING", &from]).await;
        self.source.command::<()>(&["CLUSTER", "SETSLOT", &self.slot, "MIGRATING", &to]).await;
    }

    async fn carry(&self, key: &str) {
        let port = self.target.port().to_string();
        let carried: String = self.source.command(&["MIGRATE", "127.0.0.1", &port, key, "0", "5000"]).await;
        assert_eq!(carried, "OK", "{key}");
    }

    async fn end(&self) {
        let to: String = self.target.command(&["CLUSTER", "MYID"]).await;
        for node in [&self.target, &self.source] {
            node.command::<()>(&["CLUSTER", "SETSLOT", &self.slot, "NODE", &to]).await;
        }
    }

    async fn digests(&self) -> [String; 2] {
        [self.source.command(&["DEBUG", "DIGEST"]).await, self.target.command(&["DEBUG", "DIGEST"]).await]
    }

    async fn all_are_refused(&self, node: &SharedRedis, asking: bool, code: &str) {
        let (scripts, mut connection) = (Scripts::published(), node.connect().await);
        let before = self.digests().await;
        for &verb in Verb::ALL {
            let why = call(&mut connection, asking, &scripts.get(verb).source, 2).await;
            let why = why.expect_err("a script ran in a slot on the move");
            assert_eq!(why.code(), Some(code), "{}: {why}", verb.name());
        }
        assert_eq!(self.digests().await, before);
    }
}

/// Declares the first `keys` of the script's two keys.
async fn call(
    connection: &mut MultiplexedConnection,
    asking: bool,
    source: &str,
    keys: usize,
) -> redis::RedisResult<Value> {
    let mut pipe = redis::pipe();
    if asking {
        pipe.cmd("ASKING");
    }
    let names = [format!("{SHARD}:meta"), format!("{SHARD}:never")];
    pipe.cmd("EVAL").arg(source).arg(keys).arg(&names[..keys]).arg(&["1", "t", "id", "+60000"]);
    let count = pipe.cmd_iter().count();
    let mut values = connection.send_packed_commands(&pipe, 0, count).await?;
    values.pop().expect("an answer a command").extract_error()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_on_the_move_refuses_every_script_whole_and_nothing_is_written() {
    let pair = Pair::start().await;
    let mut shard = BareShard::create(&pair.source, "s", Arc::new(Scripts::published())).await;
    let item = Item::new(b"id-1", NOW);
    let put = Action::Put { topic: "t".into(), items: vec![item] };
    assert_eq!(shard.call(put.verb(), &put.args()).await.unwrap()[1], b"ready");
    let before = shard.snapshot().await;

    pair.begin().await;
    pair.all_are_refused(&pair.source, false, "TRYAGAIN").await;
    pair.all_are_refused(&pair.target, false, "MOVED").await;

    // The bodies first, the registry last: now neither side has the whole shard.
    let keys: Vec<String> = before.keys.iter().filter(|key| *key != "meta").cloned().collect();
    for key in keys {
        pair.carry(&shard.key(&key)).await;
        pair.all_are_refused(&pair.source, false, "TRYAGAIN").await;
        pair.all_are_refused(&pair.target, true, "TRYAGAIN").await;
    }
    pair.carry(&shard.key("meta")).await;
    pair.all_are_refused(&pair.source, false, "ASK").await;
    pair.all_are_refused(&pair.target, true, "TRYAGAIN").await;

    pair.end().await;
    pair.all_are_refused(&pair.source, false, "MOVED").await;
    let mut shard = BareShard::uncreated(&pair.target, "s", Arc::new(Scripts::published())).await;
    assert_eq!(format!("{:?}", shard.snapshot().await), format!("{before:?}"), "the shard came over whole");
    let reserve = Action::Reserve(Reserve::from("t", 10, None));
    assert_eq!(shard.call(Verb::Reserve, &reserve.args()).await.unwrap()[8], b"1");
}

/// The reason for a second key: with the first key alone, the same slot lets a script begin, and stops the
/// script at a new key.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_script_that_declared_its_first_key_alone_would_be_run_halfway() {
    let pair = Pair::start().await;
    drop(BareShard::create(&pair.source, "s", Arc::new(Scripts::published())).await);
    pair.begin().await;
    let mut connection = pair.source.connect().await;
    let source = "#!lua
redis.call('HINCRBY', KEYS[1], 'gen', 2)
return redis.call('SET', string.sub(KEYS[1], 1, -5) .. 'm:1:x', '')";
    let before = pair.digests().await;
    let refused = call(&mut connection, false, source, 2).await.unwrap_err();
    assert_eq!((refused.code(), pair.digests().await), (Some("TRYAGAIN"), before.clone()), "{refused}");
    let stopped = call(&mut connection, false, source, 1).await;
    assert_ne!(pair.digests().await, before, "{stopped:?}");
}
