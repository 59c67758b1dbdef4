//! A Redis, sentinels and a cluster that speak TLS.

#![allow(clippy::unwrap_used, reason = "all of it is tests, the functions that they share included")]

use delayq::protocol::{Keys, Link, ShardId};
use delayq::{Admin, Client, Error, LinkSettings, Message, Topic, UnixMillis};
use delayq_tests::certs::Authority;
use delayq_tests::deadline::{LONG, wait_until};
use delayq_tests::deployment::{created, settings};
use delayq_tests::redis_cluster::RedisCluster;
use delayq_tests::redis_server::{RedisOptions, RedisServer};

const HINT: &str = "the server may ask for a client certificate: set `cert` and `key`";

const SHARDS: u16 = 12;
/// Far enough away that no message becomes due.
const FAR: UnixMillis = UnixMillis::new(4_102_444_800_000);

/// How an authority's Redis is reached by a client that trusts it.
fn trusting(url: &str, authority: &Authority) -> LinkSettings {
    LinkSettings::new(url).ca_pem(std::fs::read(authority.authority()).unwrap())
}

async fn asked(settings: LinkSettings) -> Result<redis::Value, String> {
    match Link::new(settings).run(&redis::cmd("PING")).await {
        Err(error @ Error::Unreachable { .. }) => Err(error.to_string()),
        answer => Ok(answer.unwrap()),
    }
}

#[tokio::test]
async fn a_redis_that_asks_for_a_certificate_gets_the_client_s_and_is_named_to_who_has_none() {
    let authority = Authority::new();
    let options = RedisOptions::default().tls(&authority.server(), &authority, true);
    let mut server = RedisServer::start_with(options).await;
    let without = trusting(&server.tls_url(), &authority);
    let own = authority.sign("client", &["client.test"]);
    let [cert, key] = [own.certificate, own.key].map(|file| std::fs::read(file).unwrap());
    let with = without.clone().identity(cert, key);

    assert!(asked(with).await.is_ok());
    for settings in [without.clone(), without.clone().resp2(true)] {
        let why = asked(settings).await.unwrap_err();
        assert!(why.contains(HINT), "{why}");
    }
    // A sentinel that asks for one is a Redis like any other, until it is asked for the master.
    let nodes = server.tls_url().replace("rediss://", "");
    let by_sentinels = trusting(&format!("rediss+sentinel://{nodes}/m"), &authority);
    let why = asked(by_sentinels).await.unwrap_err();
    assert!(why.contains(HINT), "{why}");

    let stranger = trusting(&server.tls_url(), &Authority::new());
    let why = asked(stranger).await.unwrap_err();
    assert!(why.contains("UnknownIssuer") && !why.contains(HINT), "{why}");
    server.kill().await;
    let why = asked(without).await.unwrap_err();
    assert!(why.contains("refused") && !why.contains(HINT), "{why}");
}

#[tokio::test]
async fn every_master_of_a_cluster_is_reached_by_tls_and_so_is_the_one_that_takes_over() {
    let authority = Authority::new();
    let cluster = RedisCluster::with_tls(&authority).await;
    let mut settings = settings(cluster.tls_url(), SHARDS);
    settings.link = trusting(&cluster.tls_url(), &authority);
    let (client, _, producer) = created(settings.clone()).await;
    let names = client.namespace().clone();
    let slot = |shard| Keys::new(names.clone()).slot(shard);
    let messages = |what: &str| {
        let one_each = |shard: ShardId| {
            let mut ids = (0..).map(|n| format!("{what}-{n}"));
            ids.find(|id| client.shards().shard_of_name(id) == shard).unwrap()
        };
        let message = |id| Message::new(Topic::new("orders").unwrap(), "x").at(FAR).id(id).unwrap();
        client.shards().shards().map(one_each).map(message).collect::<Vec<_>>()
    };
    for put in producer.put_many(messages("before")).await {
        put.unwrap();
    }
    // Nobody but the harness, by unix sockets, and TLS.
    for node in &cluster.nodes {
        let clients: String = node.command(&["CLIENT", "LIST", "TYPE", "NORMAL"]).await;
        let plain = |line: &&str| line.contains(&format!(" laddr={} ", node.address()));
        assert_eq!(clients.lines().find(plain), None, "{clients}");
    }
    let former = cluster.master_of(slot(ShardId::new(0))).await;
    cluster.fail_over(slot(ShardId::new(0)), None).await;
    for message in messages("after") {
        wait_until("a put to be taken", LONG, async || producer.put(message.clone()).await.is_ok()).await;
    }
    let admin = Admin::new(Client::connect(settings.clone()).await.unwrap());
    assert_eq!(admin.count(&Topic::new("orders").unwrap()).await.unwrap().delayed, 2 * u64::from(SHARDS));
    assert_ne!(cluster.master_of(slot(ShardId::new(0))).await, former);

    settings.link = trusting(&cluster.tls_url(), &Authority::new());
    let why = Client::connect(settings).await.unwrap_err().to_string();
    assert!(why.contains("UnknownIssuer"), "{why}");
}
