//! What the page asks for while many messages are pending: the time of each call, and an operation beside which somebody pings Redis.

use crate::stage::{PAGE, Stage};
use crate::wire::Connection;
use delayq::{Group, Message, MessageId, Target, Topic, UnixMillis};
use delayq_tests::redis_server::RedisServer;
use futures_util::{StreamExt as _, stream};
use hdrhistogram::Histogram;
use redis::aio::MultiplexedConnection;
use serde_json::{Value, json};
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// The topic with nearly all messages, and the topic of the operation.
const MOST: &str = "orders";
const BULK: &str = "bulk";
/// Topics that are asked for an id, besides.
const OTHERS: u64 = 98;
const DEAD: u64 = 500;
const BATCH: u64 = 500;
const BATCHES_AT_ONCE: usize = 8;
/// Messages of a group.
const OF_GROUP: u64 = 10;
const DAY_MS: u64 = 86_400_000;
const DAYS: u64 = 30;
const CALLS: usize = 30;
/// Between two looks at the operation.
const LOOK: Duration = Duration::from_millis(200);
/// Between two PINGs.
const PING: Duration = Duration::from_millis(1);

/// Prints the time of each call, and of an operation on `bulk` of the messages.
pub(crate) async fn print(messages: u64, bulk: u64) -> io::Result<()> {
    let stage = Stage::start().await;
    let now = stage.deployment.now().await.get();
    let began = Instant::now();
    seed(&stage, now, MOST, messages - bulk).await;
    seed(&stage, now, BULK, bulk).await;
    for n in 0..OTHERS {
        seed(&stage, now, &format!("other-{n}"), 1).await;
    }
    bury(&stage).await;
    let (server, seconds) = (&stage.deployment.server, began.elapsed().as_secs());
    println!(
        "{messages} messages put in {seconds} s; {} in Redis\n",
        server.field("used_memory_human").await
    );
    println!("| call | median, ms | longest of {CALLS}, ms |\n| --- | ---: | ---: |");
    let mut connection = Connection::open(&stage.gateway.address, PAGE).await?;
    for (what, line, body) in calls(&mut connection, now).await? {
        let times = timed(&mut connection, &line, &body).await?;
        println!("| {what} | {} | {} |", ms(times.value_at_quantile(0.5)), ms(times.max()));
    }
    // The timer tries HSCAN as well, in each shard.
    for command in ["sscan", "zscan", "keys"] {
        assert_eq!(server.calls_of(command).await, 0, "{command}");
    }
    // The timer tries at its start, and about once a minute, whether it may SCAN.
    let tries = 1 + began.elapsed().as_secs() / 60;
    let scans = server.calls_of("scan").await;
    assert!(scans <= tries, "{scans} SCANs, of which the timer makes {tries}");
    println!("\nNo SCAN and no KEYS.");
    operate(&mut connection, server).await
}

async fn seed(stage: &Stage, now: u64, topic: &str, messages: u64) {
    let topic = Topic::new(topic).expect("a plain name is a topic's");
    let message = |n: u64| {
        let due = now + DAY_MS + n * (DAYS * DAY_MS) / messages;
        let message = Message::new(topic.clone(), r#"{"total":"19.90"}"#).at(UnixMillis::new(due));
        let message = message
            .id(format!("{topic}-{n}"))
            .and_then(|message| message.group(format!("user-{}", n / OF_GROUP)));
        message.expect("plain names").header("customer", (n % 1000).to_string())
    };
    let batches = (0..messages.div_ceil(BATCH)).map(|batch| {
        let end = messages.min((batch + 1) * BATCH);
        stage.deployment.put((batch * BATCH..end).map(message).collect::<Vec<_>>())
    });
    stream::iter(batches).buffer_unordered(BATCHES_AT_ONCE).collect::<Vec<()>>().await;
}

async fn bury(stage: &Stage) {
    let topic = Topic::new(MOST).expect("a plain name is a topic's");
    for n in 0..DEAD {
        let id = MessageId::own(format!("{MOST}-{n}")).expect("a plain name is an id");
        let target =
            Target { id, group: Some(Group::new(format!("user-{}", n / OF_GROUP)).expect("a plain name")) };
        stage
            .deployment
            .admin
            .topic(&topic)
            .bury(&target, "TimeoutError: no answer")
            .await
            .expect("Redis answers");
    }
}

/// What the screens of the page ask for.
async fn calls(connection: &mut Connection, now: u64) -> io::Result<Vec<(&'static str, String, String)>> {
    let get = |what, path: &str| (what, format!("GET {path}"), String::new());
    let list = format!("/v1/topics/{MOST}/messages");
    let (middle, end) = (now + 15 * DAY_MS, now + 16 * DAY_MS);
    let page: Value = asked(connection, &format!("GET {list}?from={middle}&limit=50"), "").await?;
    let after = page["next"].as_str().unwrap_or_default();
    let id = &page["messages"][0]["id"];
    let group = page["messages"][0]["group"].as_str().unwrap_or_default();
    let topics: Value = asked(connection, "GET /v1/topics?limit=500", "").await?;
    let every = topics["topics"].as_array().into_iter().flatten();
    let everywhere: Vec<Value> =
        every.map(|topic| json!({ "topic": topic["topic"], "id": id, "group": group })).collect();
    let one = json!([{ "topic": MOST, "id": id, "group": group, "payload": "shown" }]);
    let dry = |filter: Value| json!({ "action": "cancel", "filter": filter, "dry_run": true }).to_string();
    let id = id.as_str().unwrap_or_default();
    Ok(vec![
        get("overview: 100 topics", "/v1/topics?limit=500"),
        get("overview: what is wrong", "/v1/status"),
        get("overview: lateness; destinations", "/v1/processes"),
        get("a topic", &format!("/v1/topics/{MOST}")),
        get("… its horizon", &format!("/v1/topics/{MOST}/horizon")),
        get("… a day of it", &format!("/v1/topics/{MOST}/horizon?from={middle}&to={end}")),
        get("… its first 50 delayed messages", &format!("{list}?state=delayed&limit=50")),
        get("… 50 in the middle", &format!("{list}?state=delayed&from={middle}&limit=50")),
        get("… the page after it", &format!("{list}?state=delayed&from={middle}&limit=50&after={after}")),
        get("… its 500 dead letters", &format!("{list}?state=dead&order=desc&limit=500")),
        ("find an id in 100 topics", "POST /v1/get".to_owned(), json!(everywhere).to_string()),
        get("find a group", &format!("/v1/groups/{group}/messages?limit=50")),
        ("a message", "POST /v1/get".to_owned(), one.to_string()),
        get("… its history", &format!("/v1/topics/{MOST}/messages/{id}/history?group={group}")),
        get("a step of a walk over 20,000", &format!("{list}?header=customer%3Anone&limit=50")),
        (
            "count what an operation matches, by topic",
            "POST /v1/operations".to_owned(),
            dry(json!({ "topics": [BULK] })),
        ),
        ("… by group", "POST /v1/operations".to_owned(), dry(json!({ "group": group }))),
        get("fleet: shards", "/v1/shards"),
        get("fleet: timers", "/v1/timers"),
        get("operations", "/v1/operations"),
        get("actions", "/v1/actions?limit=50"),
    ])
}

async fn asked(connection: &mut Connection, line: &str, body: &str) -> io::Result<Value> {
    let answer = connection.json(line, body).await?;
    assert!(answer.status < 300, "{line}: {} {}", answer.status, String::from_utf8_lossy(&answer.body));
    serde_json::from_slice(&answer.body).map_err(io::Error::other)
}

/// In microseconds.
async fn timed(connection: &mut Connection, line: &str, body: &str) -> io::Result<Histogram<u64>> {
    let mut times = Histogram::new(3).expect("three digits");
    for _ in 0..CALLS {
        let began = Instant::now();
        asked(connection, line, body).await?;
        times.record(began.elapsed().as_micros() as u64).expect("the histogram grows");
    }
    Ok(times)
}

async fn operate(connection: &mut Connection, server: &RedisServer) -> io::Result<()> {
    let quiet = pinged(server, sleep(Duration::from_secs(5))).await;
    let order =
        json!({ "action": "cancel", "filter": { "topics": [BULK] }, "reason": "a measurement" }).to_string();
    let before = cpu(server).await;
    let began = Instant::now();
    let (ended, pings) = {
        let run = async {
            let begun = asked(connection, "POST /v1/operations", &order).await?;
            let line = format!("GET /v1/operations/{}", begun["id"].as_str().unwrap_or_default());
            loop {
                let operation = asked(connection, &line, "").await?;
                if !operation["ended_ms"].is_null() {
                    return io::Result::Ok(operation);
                }
                sleep(LOOK).await;
            }
        };
        pinged(server, run).await
    };
    let (ended, seconds) = (ended?, began.elapsed().as_secs_f64());
    let done = ended["done"].as_u64().unwrap_or(0);
    println!(
        "\nAn operation cancelled {done} messages in {seconds:.1} s; Redis used {:.1} s of CPU.",
        cpu(server).await - before
    );
    let words = |pings: &Histogram<u64>| {
        let at = |quantile| ms(pings.value_at_quantile(quantile));
        format!("{} ms (p50), {} ms (p99), {} ms at most", at(0.5), at(0.99), ms(pings.max()))
    };
    println!("A PING meanwhile: {}; before: {}.", words(&pings), words(&quiet.1));
    Ok(())
}

/// Pings Redis while `run` runs. In microseconds.
async fn pinged<T>(server: &RedisServer, run: impl Future<Output = T>) -> (T, Histogram<u64>) {
    let times = Arc::new(Mutex::new(Histogram::new(3).expect("three digits")));
    let pinging = tokio::spawn(ping(server.connect().await, Arc::clone(&times)));
    let answer = run.await;
    pinging.abort();
    let times = times.lock().unwrap_or_else(PoisonError::into_inner).clone();
    (answer, times)
}

async fn ping(mut connection: MultiplexedConnection, times: Arc<Mutex<Histogram<u64>>>) {
    loop {
        let asked = Instant::now();
        let answer: Result<String, _> = redis::cmd("PING").query_async(&mut connection).await;
        record(&times, asked.elapsed());
        if answer.is_err() {
            return;
        }
        sleep(PING).await;
    }
}

fn record(times: &Mutex<Histogram<u64>>, time: Duration) {
    let mut times = times.lock().unwrap_or_else(PoisonError::into_inner);
    times.record(time.as_micros() as u64).expect("the histogram grows");
}

/// Seconds of CPU that Redis has used.
async fn cpu(server: &RedisServer) -> f64 {
    let used = |name| async move { server.field(name).await.parse::<f64>().unwrap_or(0.0) };
    used("used_cpu_user").await + used("used_cpu_sys").await
}

fn ms(micros: u64) -> String {
    format!("{:.1}", micros as f64 / 1000.0)
}
