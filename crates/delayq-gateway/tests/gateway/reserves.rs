//! Reserving by long poll: no message is leased without a reader.

use super::stage::{Answer, Stage, read_to_end, topic};
use delayq::admin::Numbers;
use delayq::{Message, Target};
use delayq_tests::deadline::{LONG, SHORT, wait_until, within};
use delayq_tests::process::Signal;
use delayq_tests::proxy::{Direction, Proxy};
use reqwest::Method;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

/// Longer than any test: no message comes back by itself.
const LEASE: &str = "10m";

fn ready(id: &str) -> Message {
    Message::new(topic("mails"), "hello").id(id).unwrap()
}

fn poll(wait: &str) -> Value {
    json!({ "topics": ["mails"], "wait": wait, "lease": LEASE })
}

async fn numbers(stage: &Stage) -> Numbers {
    stage.deployment.admin.topic(&topic("mails")).count().await.unwrap()
}

async fn attempts(stage: &Stage, id: &str) -> (u16, u32) {
    let target = Target { id: id.parse().unwrap(), group: None };
    let found = stage.deployment.admin.topic(&topic("mails")).get(&target).await.unwrap().unwrap();
    let envelope = found.envelope.unwrap();
    (envelope.attempt, envelope.delivery)
}

#[tokio::test]
async fn a_waiting_reserve_gets_the_message_that_comes_and_any_gateway_settles_it() {
    let stage = Stage::start("").await;
    let empty = stage.gateway.post("/v1/reserve", &poll("0s")).await.with(200);
    assert_eq!(empty, json!({ "messages": [] }));
    let wait = poll("60s");
    let (taken, ()) =
        tokio::join!(stage.gateway.post("/v1/reserve", &wait), stage.deployment.put([ready("a")]));
    let message = taken.with(200)["messages"][0].clone();
    assert_eq!(
        (&message["id"], &message["payload"], &message["attempt"]),
        (&json!("a"), &json!("hello"), &json!(1))
    );
    let other = stage.another().await;
    let receipt = message["receipt"].as_str().unwrap();
    let settle = |action: &str| json!([{ "receipt": receipt, "do": action }]);
    let extended = other.post("/v1/settle", &settle("extend")).await.with(200);
    assert_eq!(extended[0]["outcome"], "extended");
    assert_eq!(other.post("/v1/settle", &settle("ack")).await.with(200), json!([{ "outcome": "delivered" }]));
    let again = stage.gateway.post("/v1/settle", &settle("ack")).await.with(200);
    assert_eq!((&again[0]["outcome"], &again[0]["code"]), (&json!("lost"), &json!("DQ-G129")));
    let audit = stage.deployment.admin.audit().run(|_| {}).await.unwrap();
    assert!(
        audit.findings.is_empty() && audit.drifts.is_empty(),
        "the key of receipts is no finding: {audit:?}"
    );
}

#[tokio::test]
async fn a_reserve_takes_as_many_as_it_asks_for_and_not_more_bytes() {
    let stage = Stage::start("").await;
    stage.deployment.put((0..20).map(|n| ready(&format!("m{n}")))).await;
    let some = json!({ "topics": ["other", "mails"], "max": 8 });
    let taken = stage.gateway.post("/v1/reserve", &some).await.with(200);
    assert_eq!(taken["messages"].as_array().unwrap().len(), 8);
    let little = json!({ "topics": ["mails"], "max": 10, "max_bytes": 1 });
    let taken = stage.gateway.post("/v1/reserve", &little).await.with(200);
    assert_eq!(taken["messages"].as_array().unwrap().len(), 1, "the last one may exceed it");
    wait_until("the rest is given back", SHORT, async || numbers(&stage).await.leased == 9).await;
    for odd in [
        json!({}),
        json!({ "topics": [] }),
        json!({ "topics": ["a b"] }),
        json!({ "topics": ["t"], "max": 0 }),
        json!({ "topics": ["t"], "max": 501 }),
        json!({ "topics": ["t"], "max_bytes": 0 }),
        json!({ "topics": ["t"], "max_bytes": 16 * 1024 * 1024 + 1 }),
        json!({ "topics": ["t"], "wait": "61s" }),
        json!({ "topics": ["t"], "lease": "25h" }),
        json!({ "topics": ["t"], "weight": 1 }),
    ] {
        stage.gateway.post("/v1/reserve", &odd).await.with(422);
    }
}

#[tokio::test]
async fn a_reserve_takes_what_is_there_although_one_shard_has_all_of_it() {
    let stage = Stage::start("").await;
    // A group has one shard.
    stage.deployment.put((0..40).map(|n| ready(&format!("m{n}")).group("u").unwrap())).await;
    let all = json!({ "topics": ["mails"], "max": 50, "lease": LEASE });
    let taken = stage.gateway.post("/v1/reserve", &all).await.with(200);
    assert_eq!(taken["messages"].as_array().unwrap().len(), 40);
    stage.deployment.put((40..80).map(|n| ready(&format!("m{n}")).group("u").unwrap())).await;
    let some = json!({ "topics": ["mails"], "max": 30, "lease": LEASE, "wait": "30s" });
    let taken = stage.gateway.post("/v1/reserve", &some).await.with(200);
    assert_eq!(taken["messages"].as_array().unwrap().len(), 30);
}

#[tokio::test]
async fn many_waiting_reserves_get_one_message_each() {
    let stage = Stage::start("").await;
    let wait = poll("60s");
    let polls = (0..20).map(|_| stage.gateway.post("/v1/reserve", &wait));
    let put = stage.deployment.put((0..20).map(|n| ready(&format!("m{n}"))));
    let (answers, ()) = tokio::join!(futures_util::future::join_all(polls), put);
    let mut ids: Vec<String> =
        answers.iter().map(|answer| answer.with(200)["messages"][0]["id"].to_string()).collect();
    ids.sort();
    ids.dedup();
    assert_eq!((ids.len(), numbers(&stage).await.leased), (20, 20));
}

#[derive(Clone, Copy, Debug)]
enum End {
    Fin,
    Reset,
    HalfClose,
}

impl End {
    async fn of(self, mut stream: TcpStream) -> Option<TcpStream> {
        match self {
            Self::Fin => drop(stream),
            Self::Reset => {
                stream.set_zero_linger().unwrap();
                drop(stream);
            }
            Self::HalfClose => {
                stream.shutdown().await.unwrap();
                return Some(stream);
            }
        }
        None
    }
}

#[tokio::test]
async fn a_message_for_a_client_that_is_gone_goes_to_the_next_with_its_attempt_kept() {
    for end in [End::Fin, End::Reset, End::HalfClose] {
        for pipelines in [false, true] {
            let stage = Stage::start("").await;
            let mut stream = stage.gateway.connect().await;
            let body = poll("60s").to_string();
            let mut bytes = stage.gateway.bytes("POST /v1/reserve", &body);
            if pipelines {
                // hyper does not notice the end of a connection behind an unread request.
                bytes.extend(stage.gateway.bytes("POST /v1/reserve", &body));
            }
            stream.write_all(&bytes).await.unwrap();
            stage.gateway.has_polls(1).await;
            let kept = end.of(stream).await;
            if !pipelines {
                stage.gateway.has_polls(0).await;
            }
            stage.deployment.put([ready("a")]).await;
            let taken = stage.gateway.post("/v1/reserve", &poll("60s")).await.with(200);
            assert_eq!(taken["messages"][0]["id"], "a", "{end:?}, pipelined: {pipelines}");
            assert_eq!(attempts(&stage, "a").await.0, 1, "{end:?}, pipelined: {pipelines}");
            drop(kept);
        }
    }
}

#[tokio::test]
async fn a_load_balancer_that_cuts_a_poll_keeps_no_message_and_one_that_cuts_an_answer_no_longer_than_its_lease()
 {
    let stage = Stage::start("").await;
    let proxy = Proxy::start(&stage.gateway.address);
    let through = async |lease: &str| {
        let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
        let body = json!({ "topics": ["mails"], "wait": "60s", "lease": lease }).to_string();
        stream.write_all(&stage.gateway.bytes("POST /v1/reserve", &body)).await.unwrap();
        stage.gateway.has_polls(1).await;
        stream
    };
    let waiting = through(LEASE).await;
    proxy.reset_open();
    stage.gateway.has_polls(0).await;
    stage.deployment.put([ready("a")]).await;
    let taken = stage.gateway.post("/v1/reserve", &poll("60s")).await.with(200);
    assert_eq!((&taken["messages"][0]["id"], &taken["messages"][0]["attempt"]), (&json!("a"), &json!(1)));
    drop(waiting);

    let waiting = through("1s").await;
    proxy.cut_after(Direction::Replies, 20);
    stage.deployment.put([ready("b")]).await;
    within("the cut", SHORT, proxy.wait_losses(1)).await;
    let _timer = stage.timer();
    let taken = stage.gateway.post("/v1/reserve", &poll("60s")).await.with(200);
    assert_eq!((&taken["messages"][0]["id"], &taken["messages"][0]["attempt"]), (&json!("b"), &json!(2)));
    drop(waiting);
}

#[tokio::test]
async fn messages_on_their_way_to_clients_that_end_are_leased_by_nobody() {
    let stage = Stage::start("").await;
    let body = poll("60s").to_string();
    // Clients end at the moment of their messages' arrival.
    for round in 0..20 {
        let mut streams = Vec::new();
        for _ in 0..5 {
            let mut stream = stage.gateway.connect().await;
            stream.write_all(&stage.gateway.bytes("POST /v1/reserve", &body)).await.unwrap();
            streams.push(stream);
        }
        let put = stage.deployment.put((0..5).map(|n| ready(&format!("r{round}-{n}"))));
        let end = async {
            for stream in streams {
                End::Reset.of(stream).await;
            }
        };
        tokio::join!(put, end);
    }
    // Messages in the socket's buffers stay leased; all others are ready with their attempts intact.
    let mut seen = 0;
    loop {
        let taken = stage
            .gateway
            .post("/v1/reserve", &json!({ "topics": ["mails"], "max": 500, "wait": "3s" }))
            .await;
        let messages = taken.with(200)["messages"].as_array().unwrap().clone();
        assert!(messages.iter().all(|message| message["attempt"] == 1), "{messages:?}");
        seen += messages.len();
        if messages.is_empty() {
            break;
        }
    }
    let left = numbers(&stage).await;
    assert_eq!((left.ready, left.leased, left.accepted), (0, 100, 100), "{seen} were taken");
}

#[tokio::test]
async fn a_gateway_that_is_killed_holds_a_message_no_longer_than_its_lease() {
    let mut stage = Stage::start("").await;
    stage.deployment.put([ready("a")]).await;
    let short = json!({ "topics": ["mails"], "lease": "1s" });
    stage.gateway.post("/v1/reserve", &short).await.with(200);
    stage.gateway.process.end_by(Signal::KILL, LONG).await;
    let other = stage.another().await;
    let _timer = stage.timer();
    let taken = other.post("/v1/reserve", &poll("60s")).await.with(200);
    assert_eq!((&taken["messages"][0]["id"], &taken["messages"][0]["attempt"]), (&json!("a"), &json!(2)));
}

#[tokio::test]
async fn a_drain_answers_waiting_reserves_empty() {
    let mut stage = Stage::start("").await;
    let mut stream = stage.gateway.connect().await;
    stream.write_all(&stage.gateway.bytes("POST /v1/reserve", &poll("60s").to_string())).await.unwrap();
    stage.gateway.has_polls(1).await;
    stage.gateway.process.signal(Signal::TERM);
    let answer = within("the answer", SHORT, read_to_end(&mut stream)).await;
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with(r#"{"messages":[]}"#), "{answer}");
    stage.gateway.process.ends_well_by(Signal::TERM, LONG).await;
}

#[tokio::test]
async fn reserves_beyond_the_limit_are_refused() {
    let stage = Stage::start("max_polls = 1\n").await;
    let mut stream = stage.gateway.connect().await;
    stream.write_all(&stage.gateway.bytes("POST /v1/reserve", &poll("60s").to_string())).await.unwrap();
    stage.gateway.has_polls(1).await;
    let refused = stage.gateway.post("/v1/reserve", &poll("60s")).await;
    assert_eq!((&refused.with(503)["code"], refused.header("retry-after")), (&json!("DQ-G118"), "1"));
    drop(stream);
    stage.gateway.has_polls(0).await;
    stage.gateway.post("/v1/reserve", &poll("0s")).await.with(200);
}

#[tokio::test]
async fn what_is_settled_answers_each_and_no_forged_receipt_is_taken() {
    let stage = Stage::start("").await;
    stage.deployment.put((0..4).map(|n| ready(&format!("m{n}")))).await;
    let mut receipts = Vec::new();
    while receipts.len() < 4 {
        let taken = stage.gateway.post("/v1/reserve", &json!({ "topics": ["mails"] })).await.with(200);
        receipts
            .extend(taken["messages"].as_array().unwrap().iter().map(|message| message["receipt"].clone()));
    }
    let receipt = |n: usize| receipts[n].clone();
    let items = json!([
        { "receipt": receipt(0), "do": "release", "delay": "1h", "reason": "busy" },
        { "receipt": receipt(1), "do": "release", "delay": "0s", "keep_attempt": true },
        { "receipt": receipt(2), "do": "bury", "reason": "broken" },
        { "receipt": receipt(3), "do": "extend", "lease": "5m" },
        { "receipt": receipt(3), "do": "ack", "delay": "1h" },
        { "receipt": "AAA", "do": "ack" },
        { "receipt": receipt(3), "do": "eat" },
    ]);
    let settled = stage.gateway.post("/v1/settle", &items).await.with(200);
    let words: Vec<&Value> = (0..4).map(|n| &settled[n]["outcome"]).collect();
    assert_eq!(json!(words), json!(["delayed", "ready", "buried", "extended"]));
    for n in 4..7 {
        assert_eq!(settled[n]["code"], "DQ-G114", "{settled}");
    }
}

#[tokio::test]
async fn one_lease_is_settled_by_its_place_and_gone_once_it_was_taken_back() {
    let stage = Stage::start("").await;
    let lease = async |id: &str| {
        stage.deployment.put([ready(id)]).await;
        let taken = stage.gateway.post("/v1/reserve", &poll("60s")).await.with(200);
        assert_eq!(taken["messages"][0]["id"], id);
        format!("/v1/leases/{}", taken["messages"][0]["receipt"].as_str().unwrap())
    };
    let settled = async |path: &str, body: Value| stage.gateway.put(path, &body).await;
    let place = lease("a").await;
    assert_eq!(
        settled(&format!("{place}/extend"), json!({ "lease": "5m" })).await.with(200)["outcome"],
        "extended"
    );
    for (verb, body) in [
        ("eat", json!({})),
        ("ack", json!({ "delay": "1h" })),
        ("release", json!({ "lease": "5m" })),
        ("release", json!({ "later": true })),
    ] {
        assert_eq!(settled(&format!("{place}/{verb}"), body).await.with(422)["code"], "DQ-G114", "{verb}");
    }
    assert_eq!(settled("/v1/leases/AAA/ack", json!({})).await.with(422)["code"], "DQ-G114");
    // The body may be missing.
    let ack = stage.gateway.request(Method::PUT, &format!("{place}/ack"));
    assert_eq!(Answer::of(ack).await.with(200), json!({ "outcome": "delivered" }));
    let again = settled(&format!("{place}/ack"), json!({})).await.with(410);
    assert_eq!((&again["outcome"], &again["code"]), (&json!("lost"), &json!("DQ-G129")));
    let place = lease("b").await;
    let later = settled(&format!("{place}/release"), json!({ "delay": "1h", "reason": "busy" })).await;
    assert_eq!(later.with(200)["outcome"], "delayed");
    let place = lease("c").await;
    assert_eq!(
        settled(&format!("{place}/bury"), json!({ "reason": "broken" })).await.with(200),
        json!({ "outcome": "buried" })
    );
    let kept = numbers(&stage).await;
    assert_eq!((kept.delayed, kept.dead, kept.leased), (1, 1, 0));
}
