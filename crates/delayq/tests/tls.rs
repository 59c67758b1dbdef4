//! A Redis and sentinels that speak TLS, and ask for a certificate of the client.

#![allow(clippy::unwrap_used, reason = "all of it is tests, the functions that they share included")]

use delayq::protocol::Link;
use delayq::{Error, LinkSettings};
use delayq_tests::certs::Authority;
use delayq_tests::redis_server::{RedisOptions, RedisServer};

const HINT: &str = "the server may ask for a client certificate: set `cert` and `key`";

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
