//! Redirects, the limit of connections, and TLS.

use super::endpoint::{Endpoint, Script, asking, encrypted, sink};
use crate::conformance::{
    Subject, tls_refuses_an_expired_certificate, tls_shows_the_certificate_that_is_asked_for,
    tls_takes_the_private_authority_and_no_other_name,
};
use crate::stage::{Stage, route, topic};
use delayq::Message;
use delayq_forwarder::WebhookConfig;
use delayq_service::config::{HumanDuration, PemFiles};
use delayq_tests::certs::Authority;
use delayq_tests::deadline::{LONG, wait_until};
use delayq_tests::invariants::Permit;
use std::sync::atomic::Ordering;
use tokio::sync::Semaphore;

fn trusting(url: String, authority: &Authority) -> WebhookConfig {
    let files = PemFiles { ca: Some(authority.authority()), ..PemFiles::default() };
    WebhookConfig { url, files, ..WebhookConfig::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redirect_is_not_followed_and_the_message_is_not_delivered() {
    let other = Endpoint::start().await;
    for status in ["302 Moved", "307 Moved", "308 Moved"] {
        let (stage, subject) = (Stage::new().await, Endpoint::start().await);
        let settings = stage.settings([("s", subject.sink())], vec![route("t", "s", "in")]);
        let running = stage.forward(settings).await.unwrap();
        let to = format!("http://{}/moved", other.address);
        subject.answer("m", &format!("{status}\r\nlocation: {to}\r\ncontent-length: 0\r\n\r\n"));
        let message = Message::new(topic("t"), "body").id("m").unwrap().max_attempts(1);
        assert!(stage.producer.put(message).await.unwrap().outcome.is_accepted());
        stage.drained("t").await;
        running.stop().await;
        let reason = &stage.dead("t").await["m"];
        assert!(reason.starts_with(&status[..3]), "{status}: {reason}");
        assert_eq!((subject.accepted(), other.accepted()), (0, 0), "{status} was followed");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sink_keeps_its_limit_of_concurrent_requests() {
    const LIMIT: usize = 3;
    let stage = Stage::new().await;
    let subject =
        Endpoint::start_with(Script { gate: Some(Semaphore::new(0)), ..Script::default() }, None).await;
    let mut sink = subject.sink();
    sink.webhook.as_mut().unwrap().connections = u16::try_from(LIMIT).unwrap();
    sink.timeout = HumanDuration::from_secs(60);
    let routes = vec![route("a", "s", "a"), route("b", "s", "b")];
    let running = stage.forward(stage.settings([("s", sink)], routes)).await.unwrap();
    stage.put("a", 0, 20, 10).await;
    stage.put("b", 20, 20, 10).await;
    let script = &subject.script;
    for left in (1..=40).rev() {
        let expected = LIMIT.min(left);
        wait_until("as many requests as allowed", LONG, || async {
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
    let sink = sink(trusting(url, &authority));
    tls_refuses_an_expired_certificate(&stage, "in", sink).await;
    assert_eq!(server.accepted(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_takes_the_private_authority_and_refuses_another_name() {
    let (stage, authority, stranger) = (Stage::new().await, Authority::new(), Authority::new());
    let (server, misnamed) = (encrypted(&authority.server()).await, encrypted(&authority.wrong_name()).await);
    let with = |endpoint: &Endpoint, authority: &Authority| {
        let url = format!("https://{}/hook", endpoint.address);
        sink(trusting(url, authority))
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
    let without = trusting(url, &authority);
    let mut with = without.clone();
    (with.files.cert, with.files.key) = (Some(own.certificate), Some(own.key));
    tls_shows_the_certificate_that_is_asked_for(&stage, "in", [with, without].map(sink)).await;
    stage.check("t", server.seen().await, &Permit::default()).await;
}
