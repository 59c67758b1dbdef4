//! A Redis, sentinels and a cluster that speak TLS.

use delayq::protocol::{Identity, Keys, Link, SentinelSettings, ShardId};
use delayq::{Admin, Client, Error, LinkSettings, Message, Topic, UnixMillis};
use delayq_tests::certs::Authority;
use delayq_tests::deadline::{LONG, wait_until};
use delayq_tests::deployment::{created, settings};
use delayq_tests::redis_cluster::RedisCluster;
use delayq_tests::redis_server::{RedisOptions, RedisServer, replicated};
use delayq_tests::sentinel::SERVICE;
use delayq_tests::sentinel_group::SentinelGroup;

const HINT: &str = "the server may ask for a client certificate: set `cert` and `key`";

const REFUSED: &str = "the server may not trust the client certificate: check `cert`";

const SHARDS: u16 = 12;
const FAR: UnixMillis = UnixMillis::new(4_102_444_800_000);

fn trusting(url: &str, authority: &Authority) -> LinkSettings {
    LinkSettings::new(url).ca_pem(std::fs::read(authority.authority()).unwrap())
}

fn identity(authority: &Authority) -> [Vec<u8>; 2] {
    let own = authority.sign("client", &["client.test"]);
    [own.certificate, own.key].map(|file| std::fs::read(file).unwrap())
}

async fn asked(settings: LinkSettings) -> Result<redis::Value, String> {
    match Link::new(settings).run(&redis::cmd("PING")).await {
        Err(error @ Error::Unreachable { .. }) => Err(error.to_string()),
        answer => Ok(answer.unwrap()),
    }
}

fn messages(client: &Client, what: &str) -> Vec<Message> {
    let one_each = |shard: ShardId| {
        let mut ids = (0..).map(|n| format!("{what}-{n}"));
        ids.find(|id| client.shards().shard_of_name(id) == shard).unwrap()
    };
    let message = |id| Message::new(Topic::new("orders").unwrap(), "x").at(FAR).id(id).unwrap();
    client.shards().shards().map(one_each).map(message).collect()
}

#[tokio::test]
async fn a_redis_that_asks_for_a_certificate_gets_the_client_s_and_is_named_to_who_has_none() {
    let authority = Authority::new();
    let options = RedisOptions::default().tls(&authority.server(), &authority, true);
    let mut server = RedisServer::start_with(options).await;
    let without = trusting(&server.tls_url(), &authority);
    let [cert, key] = identity(&authority);
    let with = without.clone().identity(cert, key);

    assert!(asked(with).await.is_ok());
    for settings in [without.clone(), without.clone().resp2(true)] {
        let why = asked(settings).await.unwrap_err();
        assert!(why.contains(HINT), "{why}");
    }
    // A sentinel that asks for a client certificate behaves like any Redis, until the client asks for the master.
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
async fn a_failed_handshake_says_what_is_wrong_with_the_certificate_or_the_port() {
    let authority = Authority::new();
    for (certificate, trusted, meaning) in [
        (authority.as_server(), &authority, "CA:FALSE"),
        (authority.server(), &Authority::new(), "put its authority into `ca`"),
        (authority.wrong_name(), &authority, "use a host name from the server's certificate"),
        (authority.expired(), &authority, "compare the clocks"),
    ] {
        let server =
            RedisServer::start_with(RedisOptions::default().tls(&certificate, &authority, false)).await;
        let why = asked(trusting(&server.tls_url(), trusted)).await.unwrap_err();
        assert!(why.contains(meaning), "{why}");
    }
    let server =
        RedisServer::start_with(RedisOptions::default().tls(&authority.server(), &authority, false)).await;
    let plain = format!("rediss://127.0.0.1:{}", server.port());
    let why = asked(trusting(&plain, &authority)).await.unwrap_err();
    assert!(why.contains("does not speak TLS at this port"), "{why}");
    let why = asked(LinkSettings::new(server.tls_url().replace("rediss", "redis"))).await.unwrap_err();
    assert!(why.contains("rediss://"), "{why}");
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
    let messages = |what: &str| messages(&client, what);
    for put in producer.put_many(messages("before")).await {
        put.unwrap();
    }
    // The harness alone connects without TLS, by unix sockets.
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
    assert_eq!(
        admin.topic(&Topic::new("orders").unwrap()).count().await.unwrap().delayed,
        2 * u64::from(SHARDS)
    );
    assert_ne!(cluster.master_of(slot(ShardId::new(0))).await, former);

    settings.link = trusting(&cluster.tls_url(), &Authority::new());
    let why = Client::connect(settings).await.unwrap_err().to_string();
    assert!(why.contains("UnknownIssuer"), "{why}");
}

#[tokio::test]
async fn sentinels_and_the_master_that_they_name_are_reached_by_tls_and_so_is_the_next_one() {
    let authority = Authority::new();
    let group = SentinelGroup::with_tls(&authority).await;
    let mut settings = settings(group.tls_url(), SHARDS);
    let [cert, key] = identity(&authority);
    settings.link = trusting(&group.tls_url(), &authority).identity(cert, key);
    let (client, _, producer) = created(settings.clone()).await;
    for put in producer.put_many(messages(&client, "before")).await {
        put.unwrap();
    }
    // Only delayq's connections speak RESP3.
    for (sentinel, [plain, tls]) in
        group.sentinels.iter().map(|sentinel| (sentinel, [sentinel.address(), sentinel.tls_address()]))
    {
        let clients: String = sentinel.command(&["CLIENT", "LIST"]).await;
        let at = |address: &str| {
            let at = format!(" laddr={address} ");
            clients.lines().filter(|line| line.contains(&at) && line.contains(" resp=3")).count()
        };
        assert!((at(&plain), at(&tls) > 0) == (0, true), "{clients}");
    }
    replicated(&group.redises, 0).await;
    group.sentinels[1].command::<()>(&["SENTINEL", "FAILOVER", SERVICE]).await;
    let master = &group.redises[group.master_after(0).await];
    let stored = async |what: &str| master.command::<Vec<Vec<u8>>>(&["KEYS", what]).await.len();
    wait_until("a put of each shard to reach the new master", LONG, async || {
        drop(producer.put_many(messages(&client, "after")).await);
        stored("*:m:*after-*").await == usize::from(SHARDS)
    })
    .await;
    assert_eq!(stored("*:m:*before-*").await, usize::from(SHARDS));
    for redis in &group.redises {
        let clients: String = redis.command(&["CLIENT", "LIST", "TYPE", "NORMAL"]).await;
        let plain = |line: &&str| line.contains(&format!(" laddr={} ", redis.address()));
        assert_eq!(clients.lines().find(plain), None, "{clients}");
    }
    let admin = Admin::new(Client::connect(settings).await.unwrap());
    assert_eq!(
        admin.topic(&Topic::new("orders").unwrap()).count().await.unwrap().delayed,
        2 * u64::from(SHARDS)
    );
}

#[tokio::test]
async fn a_wrong_certificate_is_named_by_whose_it_is_the_sentinels_or_the_redis_s() {
    let (authority, other) = (Authority::new(), Authority::new());
    let group = SentinelGroup::with_tls(&authority).await;
    let right = |client: &Authority| {
        let [cert, key] = identity(client);
        trusting(&group.tls_url(), &authority).identity(cert, key)
    };
    let pem = |authority: &Authority| std::fs::read(authority.authority()).unwrap();
    let shown = |client: &Authority| {
        let [cert, key] = identity(client);
        Some(Identity::from_pem(cert, key))
    };
    // Identity and trust for sentinels alone, other than for the Redis.
    let apart = |of: &dyn Fn(&mut SentinelSettings)| {
        let mut sentinel = SentinelSettings::default();
        of(&mut sentinel);
        sentinel
    };
    assert!(asked(right(&authority)).await.is_ok());
    let without = trusting(&group.tls_url(), &authority);
    let sentinels: Vec<String> =
        group.sentinels.iter().map(|sentinel| format!("sentinel {}: ", sentinel.tls_address())).collect();
    let redis =
        vec![format!("{}, the master of {SERVICE}", group.redises[0].tls_url().replace("rediss://", ""))];
    for (settings, whose, why) in [
        (right(&authority).ca_pem(pem(&other)), &sentinels, "UnknownIssuer"),
        (
            right(&authority).sentinel(apart(&|own| own.ca_pem = Some(pem(&other)))),
            &sentinels,
            "UnknownIssuer",
        ),
        (
            right(&authority).ca_pem(pem(&other)).sentinel(apart(&|own| own.ca_pem = Some(pem(&authority)))),
            &redis,
            "UnknownIssuer",
        ),
        (without.clone(), &sentinels, HINT),
        (without.sentinel(apart(&|own| own.identity = shown(&authority))), &redis, HINT),
        (right(&other), &sentinels, REFUSED),
        (right(&authority).sentinel(apart(&|own| own.identity = shown(&other))), &sentinels, REFUSED),
        (right(&other).sentinel(apart(&|own| own.identity = shown(&authority))), &redis, REFUSED),
    ] {
        let error = asked(settings).await.unwrap_err();
        let ours = |named: &String| error.contains(named.as_str());
        assert!(whose.iter().all(ours) && error.contains(why), "{error}");
        let others = if *whose == redis { &sentinels } else { &redis };
        assert!(!others.iter().any(ours), "{error}");
    }
}
