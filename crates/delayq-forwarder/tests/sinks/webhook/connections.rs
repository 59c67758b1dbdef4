//! Redirects, the limit of a host, and TLS.

use super::endpoint::{Endpoint, Script, asking, encrypted, sink};
use crate::conformance::{
    Subject, tls_refuses_an_expired_certificate, tls_shows_the_certificate_that_is_asked_for,
    tls_takes_the_private_authority_and_no_other_name,
};
use crate::stage::{Stage, route, topic};
use delayq::Message;
use delayq_forwarder::WebhookConfig;
use delayq_service::config::HumanDuration;
use delayq_tests::certs::Authority;
use delayq_tests::deadline::{LONG, wait_until};
use delayq_tests::invariants::Permit;
use std::sync::atomic::Ordering;
use tokio::sync::Semaphore;

#[tokio::test(flavor = "multi_thread")]
async fn a_redirect_is_followed_to_a_private_address_only_where_that_is_allowed() {
    let other = Endpoint::start().await;
    let port = other.address.rsplit(':').next().unwrap().to_owned();
    let to = |host: &str| format!("http://{host}:{port}/moved");
    for (follow, private, status, to, refusal) in [
        (false, false, "307 Moved", to("127.0.0.1"), Some("307 Temporary Redirect")),
        (true, false, "307 Moved", to("127.0.0.1"), Some("the private address 127.0.0.1")),
        (true, false, "308 Moved", to("127.0.0.2"), Some("the private address 127.0.0.2")),
        (true, false, "307 Moved", to("localhost"), Some("localhost has private addresses only")),
        (true, true, "302 Moved", to("127.0.0.1"), Some("does not keep the request")),
        (true, true, "307 Moved", to("127.0.0.1"), None),
        (true, true, "308 Moved", to("localhost"), None),
    ] {
        let (stage, subject) = (Stage::new().await, Endpoint::start().await);
        let mut sink = subject.sink();
        let config = sink.webhook.as_mut().unwrap();
        (config.follow_redirects, config.allow_private_redirects) = (follow, private);
        let settings = stage.settings([("s", sink)], vec![route("t", "s", "in")]);
        let running = stage.forward(settings).await.unwrap();
        subject.answer("m", &format!("{status}\r\nlocation: {to}\r\ncontent-length: 0\r\n\r\n"));
        let before = other.accepted();
        let message = Message::new(topic("t"), "body").id("m").unwrap().max_attempts(1);
        assert!(stage.producer.put(message).await.unwrap().outcome.is_accepted());
        stage.drained("t").await;
        running.stop().await;
        match refusal {
            None => {
                assert_eq!((other.accepted() - before, stage.dead("t").await.len()), (1, 0), "{to}");
                let request = other.requests.lock().unwrap().last().unwrap().clone();
                assert_eq!((request.path.as_str(), &request.body[..]), ("/moved", &b"body"[..]));
            }
            Some(part) => {
                let reason = &stage.dead("t").await["m"];
                assert!(reason.contains(part), "{to} {status}: {reason}");
                assert_eq!(other.accepted(), before, "{to} {status} was followed");
            }
        }
        assert_eq!(subject.accepted(), 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_sinks_of_one_host_keep_its_limit_together() {
    const LIMIT: usize = 3;
    let stage = Stage::new().await;
    let subject =
        Endpoint::start_with(Script { gate: Some(Semaphore::new(0)), ..Script::default() }, None).await;
    let sink = |connections: usize| {
        let mut sink = subject.sink();
        sink.webhook.as_mut().unwrap().connections = u16::try_from(connections).unwrap();
        sink.timeout = HumanDuration::from_secs(60);
        sink
    };
    let routes = vec![route("a", "one", "a"), route("b", "two", "b")];
    let running =
        stage.forward(stage.settings([("one", sink(LIMIT)), ("two", sink(64))], routes)).await.unwrap();
    stage.put("a", 0, 20, 10).await;
    stage.put("b", 20, 20, 10).await;
    let script = &subject.script;
    for left in (1..=40).rev() {
        let expected = LIMIT.min(left);
        wait_until("as many requests as may", LONG, || async {
            script.waiting.load(Ordering::SeqCst) == expected
        })
        .await;
        script.gate.as_ref().unwrap().add_permits(1);
        wait_until("an answer", LONG, || async { subject.accepted() == 41 - left }).await;
    }
    stage.drained("a").await;
    stage.drained("b").await;
    running.stop().await;
    assert_eq!(script.max_waiting.load(Ordering::SeqCst), LIMIT);
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_names_a_certificate_that_has_expired() {
    let (stage, authority) = (Stage::new().await, Authority::new());
    let server = encrypted(&authority.expired()).await;
    let url = format!("https://{}/hook", server.address);
    let sink = sink(WebhookConfig { url, ca: Some(authority.authority()), ..WebhookConfig::default() });
    tls_refuses_an_expired_certificate(&stage, "in", sink).await;
    assert_eq!(server.accepted(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_takes_the_private_authority_and_refuses_another_name() {
    let (stage, authority, stranger) = (Stage::new().await, Authority::new(), Authority::new());
    let (server, misnamed) = (encrypted(&authority.server()).await, encrypted(&authority.wrong_name()).await);
    let with = |endpoint: &Endpoint, authority: &Authority| {
        let url = format!("https://{}/hook", endpoint.address);
        sink(WebhookConfig { url, ca: Some(authority.authority()), ..WebhookConfig::default() })
    };
    let sinks = [with(&server, &authority), with(&server, &stranger), with(&misnamed, &authority)];
    tls_takes_the_private_authority_and_no_other_name(&stage, "in", sinks).await;
    stage.check("t", server.seen().await, &Permit::default()).await;
    assert_eq!(misnamed.accepted(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_shows_the_certificate_that_the_server_asks_for() {
    let (stage, authority) = (Stage::new().await, Authority::new());
    let server = asking(&authority.server(), &authority.authority()).await;
    let own = authority.sign("forwarder", &["forwarder.test"]);
    let url = format!("https://{}/hook", server.address);
    let without = WebhookConfig { url, ca: Some(authority.authority()), ..WebhookConfig::default() };
    let with = WebhookConfig { cert: Some(own.certificate), key: Some(own.key), ..without.clone() };
    tls_shows_the_certificate_that_is_asked_for(&stage, "in", [with, without].map(sink)).await;
    stage.check("t", server.seen().await, &Permit::default()).await;
}
