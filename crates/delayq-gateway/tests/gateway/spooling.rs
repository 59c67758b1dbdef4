//! A gateway with a spool while Redis is unavailable, and the compensator of its host.

use super::lmstfy::scene::Ports;
use super::stage::{Answer, Running, Stage, topic};
use delayq_gateway::token_line;
use delayq_service::Exit;
use delayq_spool::{SpoolReader, SpoolStats};
use delayq_tests::binary::Binary;
use delayq_tests::deadline::{LONG, SHORT, wait_until};
use delayq_tests::folder::Folder;
use delayq_tests::process::{Process, Signal};
use delayq_tests::redis_server::{RedisOptions, RedisServer};
use reqwest::Method;
use serde_json::json;
use std::collections::BTreeMap;
use std::process::Command;

const FAR: &str = "2099-01-01T00:00:00Z";
const AN_HOUR_ON: &str = "2099-01-01T01:00:00Z";

struct Host {
    stage: Stage<RedisServer>,
    spool: Folder,
    settings: String,
}

// === impl Host ===

impl Host {
    async fn start() -> Self {
        Self::with("", "").await
    }

    /// With more settings of the gateway, and further sections.
    async fn with(gateway: &str, sections: &str) -> Self {
        let spool = Folder::new("spool");
        let settings = format!("{gateway}[spool]\ndir = \"{}\"\n{sections}", spool.path().display());
        let redis = RedisServer::start_with(RedisOptions::default().append_only("always")).await;
        Self { stage: Stage::on(redis, &settings).await, spool, settings }
    }

    fn gateway(&self) -> &Running {
        &self.stage.gateway
    }

    async fn kill_redis(&mut self) {
        self.stage.deployment.server.kill().await;
    }

    async fn kill_gateway(&mut self) {
        let ended = self.stage.gateway.process.end_by(Signal::KILL, LONG).await;
        assert_eq!(ended.code(), None, "it ended by itself: {}", self.stage.gateway.process.tail());
    }

    async fn restart_gateway(&mut self) {
        self.stage.gateway = self.stage.another_with(&self.settings).await;
    }

    /// Redis is back, and a compensator has carried out everything that waited.
    async fn drained(&mut self) -> Process {
        self.stage.deployment.server.resume().await;
        let config = self.stage.folder.join("compensator.toml");
        let rest = format!("[admin]\nlisten = \"\"\n[spool]\ndir = \"{}\"\n", self.spool.path().display());
        std::fs::write(&config, self.stage.deployment.sections() + &rest).unwrap();
        let compensator = Binary::new("delayq-compensator").arg(&config).start();
        wait_until("an empty spool", LONG, async || self.books().waiting == 0).await;
        compensator
    }

    fn books(&self) -> SpoolStats {
        SpoolReader::open_beside(self.spool.path()).unwrap().stats().unwrap()
    }
}

fn at(id: &str) -> String {
    format!("/v1/topics/t/messages/{id}")
}

/// How often each message of the topic is handed out, by its id.
async fn taken(gateway: &Running, topic: &str) -> BTreeMap<String, u64> {
    let mut taken = BTreeMap::new();
    loop {
        let body = json!({ "topics": [topic], "max": 500, "wait": "500ms", "lease": "1h" });
        let messages = gateway.post("/v1/reserve", &body).await.with(200)["messages"].clone();
        let messages = messages.as_array().unwrap().clone();
        if messages.is_empty() {
            return taken;
        }
        for message in messages {
            *taken.entry(message["id"].as_str().unwrap().to_owned()).or_default() += 1;
        }
    }
}

#[tokio::test]
async fn a_tenant_that_floods_leaves_most_of_the_spool_to_the_others() {
    let folder = Folder::new("tokens");
    let of = |tenant: &str| token_line(tenant, tenant).replace('\n', &format!(" tenant={tenant}\n"));
    let file = folder.join("tokens");
    std::fs::write(&file, of("noisy") + &of("quiet") + &token_line("all", "all")).unwrap();
    let gateway = format!("tokens = \"{}\"\n", file.display());
    let mut host = Host::with(&gateway, "").await;
    host.settings = host.settings.replace("[spool]\n", "[spool]\nmax_bytes = \"1MiB\"\n");
    host.restart_gateway().await;
    host.kill_redis().await;

    let body = json!({ "due": FAR, "payload": "x".repeat(20_000) });
    let put = async |host: &Host, token: &str, id: &str| {
        let request = host.gateway().request(Method::PUT, &at(id)).bearer_auth(token);
        Answer::of(request.json(&body)).await
    };
    let mut spooled = 0;
    let refused = loop {
        match put(&host, "noisy", &format!("n{spooled}")).await {
            answer if answer.status == 202 => spooled += 1,
            answer => break answer,
        }
    };
    assert_eq!(spooled, 262_144 / 20_256, "a quarter of the spool");
    let problem = refused.with(503);
    assert_eq!((&problem["code"], &problem["fate"]), (&json!("DQ-G136"), &json!("not_applied")));
    assert_eq!((refused.header("retry-after"), refused.header("ratelimit")), ("10", "\"spool\";r=0;t=10"));
    let line = format!("{}\n", json!({ "topic": "t", "id": "line", "payload": "x".repeat(20_000) }));
    let request = host.gateway().request(Method::POST, "/v1/messages").bearer_auth("noisy");
    let lines = Answer::of(request.header("content-type", "application/x-ndjson").body(line)).await.lines();
    assert_eq!((&lines[0]["code"], &lines[1]["outcomes"]), (&json!("DQ-G136"), &json!({ "failed": 1 })));
    for token in ["quiet", "all"] {
        for n in 0..10 {
            assert_eq!(put(&host, token, &format!("q{n}")).await.status, 202, "{token} {n}");
        }
    }
    // Behind what waits, a message may be changed still, up to twice the share.
    let request = host.gateway().request(Method::DELETE, &at("n0")).bearer_auth("noisy");
    assert_eq!(Answer::of(request).await.with(202)["outcome"], "spooled");

    let _compensator = host.drained().await;
    let is_stored = async || put(&host, "noisy", "after").await.status == 201;
    wait_until("a put of the tenant", LONG, is_stored).await;
    host.kill_redis().await;
    assert_eq!(put(&host, "noisy", "again").await.status, 202, "the share is free again");
}

#[tokio::test]
async fn puts_while_redis_is_away_are_spooled_and_delivered_once_though_the_gateway_is_killed() {
    let mut host = Host::start().await;
    host.gateway().put(&at("before"), &json!({})).await.with(201);
    host.kill_redis().await;

    let own = host.gateway().put(&at("own"), &json!({ "payload": "x" })).await;
    assert_eq!((&own.with(202)["outcome"], own.header("location")), (&json!("spooled"), ""));
    let posted = host.gateway().request(Method::POST, "/v1/topics/t/messages");
    let keyed = posted.header("idempotency-key", "keyed").header("content-type", "text/plain").body("x");
    assert_eq!(Answer::of(keyed).await.with(202)["id"], "keyed");
    let generated = host.gateway().post("/v1/topics/t/messages", &json!({})).await.with(202);
    let lines = "{\"topic\":\"t\",\"id\":\"line\"}\n{\"topic\":\"t\",\"due\":\"yesterday\"}\n";
    let lines = host.gateway().post_lines("/v1/messages", lines).await.lines();
    assert_eq!((&lines[0]["outcome"], &lines[1]["code"]), (&json!("spooled"), &json!("DQ-G114")));
    assert_eq!(lines[2]["outcomes"], json!({ "spooled": 1, "failed": 1 }));
    host.kill_gateway().await;

    assert_eq!(host.books().waiting, 4);
    let _compensator = host.drained().await;
    host.restart_gateway().await;
    let ids = ["before", "own", "keyed", generated["id"].as_str().unwrap(), "line"];
    let once = ids.into_iter().map(|id| (id.to_owned(), 1)).collect::<BTreeMap<_, _>>();
    assert_eq!(taken(host.gateway(), "t").await, once);
    let books = host.books();
    assert_eq!((books.replayed, books.rejected), (4, 0));
}

#[tokio::test]
async fn changes_while_redis_is_away_follow_the_message_through_the_spool() {
    let mut host = Host::start().await;
    for id in ["moved", "cancelled", "many"] {
        host.gateway().put(&at(id), &json!({ "due": FAR })).await.with(201);
    }
    let grouped = json!({ "due": FAR, "group": "g" });
    host.gateway().put(&at("grouped"), &grouped).await.with(201);
    let shifted = json!({ "due": FAR, "group": "s" });
    host.gateway().put(&at("shifted"), &shifted).await.with(201);
    host.kill_redis().await;

    let later = json!({ "due": AN_HOUR_ON });
    let moved = host.gateway().post(&(at("moved") + "/reschedule"), &later).await.with(202);
    assert_eq!(moved, json!({ "id": "moved", "outcome": "spooled" }));
    host.gateway().delete(&at("cancelled")).await.with(202);
    let many = host.gateway().post("/v1/cancel", &json!([{ "topic": "t", "id": "many" }])).await.with(200);
    assert_eq!(many, json!([{ "id": "many", "outcome": "spooled" }]));
    let group = host.gateway().post("/v1/groups/g/cancel", &json!({})).await.with(202);
    assert_eq!(group, json!({ "outcome": "spooled", "cancelled": 0, "leased_or_failed": 0 }));
    let shift = json!({ "by": "1h", "token": "once" });
    let shift = host.gateway().post("/v1/groups/s/shift", &shift).await.with(202);
    assert_eq!(shift, json!({ "outcome": "spooled", "moved": 0, "passed": 0 }));
    // What has to read the message first has no way through the spool.
    let tag = host.gateway().request(Method::DELETE, &at("moved")).header("if-match", "\"1-1\"");
    assert_eq!(Answer::of(tag).await.with(503)["code"], "DQ-G117");
    host.gateway().post(&(at("moved") + "/replay"), &json!({})).await.with(503);

    let _compensator = host.drained().await;
    let state = async |id: &str| {
        let shown = host.gateway().get(&at(id)).await;
        (shown.json()["state"].clone(), shown.json()["due_at"].clone())
    };
    wait_until("the gateway's connection", LONG, async || {
        host.gateway().get(&at("moved")).await.status == 200
    })
    .await;
    assert_eq!(state("moved").await, (json!("delayed"), json!("2099-01-01T01:00:00.000Z")));
    for id in ["cancelled", "many", "grouped?group=g"] {
        assert_eq!(state(id).await.0, "cancelled", "{id}");
    }
    assert_eq!(state("shifted?group=s").await.1, "2099-01-01T01:00:00.000Z");
}

#[tokio::test]
async fn with_a_spool_a_gateway_starts_and_stays_ready_while_redis_is_away() {
    let mut host = Host::start().await;
    host.stage.deployment.server.freeze();
    wait_until("a spooled put", LONG, async || host.gateway().put(&at("a"), &json!({})).await.status == 202)
        .await;
    assert_eq!(host.gateway().endpoint.get("/readyz").await.0, 200);
    host.stage.deployment.server.thaw();
    let mut n = 0;
    wait_until("a put that goes to Redis", LONG, || {
        n += 1;
        let (gateway, id) = (host.gateway(), at(&format!("back{n}")));
        async move { gateway.put(&id, &json!({})).await.status == 201 }
    })
    .await;

    host.kill_redis().await;
    host.kill_gateway().await;
    host.restart_gateway().await;
    assert_eq!(host.gateway().put(&at("c"), &json!({})).await.with(202)["outcome"], "spooled");
    assert_eq!(host.gateway().endpoint.get("/readyz").await.0, 200);
    let _compensator = host.drained().await;
    wait_until("all of them", LONG, async || {
        let counted = host.stage.deployment.admin.topic(&topic("t")).count().await;
        counted.is_ok_and(|counted| counted.ready == 2 + n)
    })
    .await;
}

#[tokio::test]
async fn a_folder_that_no_spool_can_be_in_is_refused_at_the_start_by_name() {
    let folder = Folder::new("no-spool");
    std::fs::write(folder.join("file"), "").unwrap();
    let config = folder.join("gateway.toml");
    let spool = folder.join("file/spool");
    let text = format!(
        "[redis]\nurl = 'redis://127.0.0.1:1'\n[admin]\nlisten = ''\n[spool]\ndir = '{}'\n[gateway]\nlisten = '127.0.0.1:0'\n",
        spool.display()
    );
    std::fs::write(&config, text).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_delayq-gateway"));
    command.arg(&config);
    let mut process = Process::spawn("delayq-gateway", command);
    let ended = process.wait_end(LONG).await;
    assert_eq!(ended.code(), Some(Exit::Unavailable.code().into()), "{}", process.tail());
    let said = process.tail();
    assert!(said.contains("DQ-G007") && said.contains(&spool.display().to_string()), "{said}");
}

#[tokio::test]
async fn a_full_spool_refuses_by_name_and_takes_again_once_it_is_drained() {
    let mut host = Host::with("", "max_bytes = \"1MiB\"\n").await;
    host.kill_redis().await;
    let body = json!({ "payload": "x".repeat(200_000) });
    let mut last = host.gateway().put(&at("0"), &body).await;
    for n in 1..20 {
        if last.status == 503 {
            break;
        }
        last.with(202);
        last = host.gateway().put(&at(&n.to_string()), &body).await;
    }
    let refused = last.with(503);
    assert_eq!((&refused["code"], last.header("retry-after")), (&json!("DQ-G134"), "1"));
    assert_eq!(refused["fate"], "not_applied");
    assert!(refused["detail"].as_str().unwrap().contains("the spool is full"), "{refused}");
    let _compensator = host.drained().await;
    wait_until("a put", LONG, async || {
        [200, 201].contains(&host.gateway().put(&at("b"), &body).await.status)
    })
    .await;
}

#[tokio::test]
async fn a_tenant_spools_under_its_prefix_within_the_quotas_that_were_read() {
    let tokens = Folder::new("tokens");
    let file = tokens.join("tokens");
    let acme = token_line("acme", "acme").replace('\n', " tenant=acme\n");
    std::fs::write(&file, acme + &token_line("root", "root")).unwrap();
    let mut host = Host::with(&format!("tokens = \"{}\"\n", file.display()), "").await;
    let put = async |host: &Host, id: &str, token: &str| {
        let body = json!({ "due": FAR, "group": "g" });
        Answer::of(host.gateway().request(Method::PUT, &at(id)).bearer_auth(token).json(&body)).await
    };
    let quotas = json!({ "pending": 3 });
    let set = host.gateway().request(Method::PUT, "/v1/tenants/acme").bearer_auth("root").json(&quotas);
    Answer::of(set).await;
    put(&host, "a", "acme").await.with(201);
    host.kill_redis().await;

    for id in ["b", "c"] {
        put(&host, id, "acme").await.with(202);
    }
    let over = put(&host, "d", "acme").await;
    assert_eq!(over.with(429)["code"], "DQ-G124", "three of its messages are pending or spooled");
    let refused = json!([{ "topic": "t", "id": "e", "group": "g" }]);
    let cancel = host.gateway().request(Method::POST, "/v1/cancel").bearer_auth("acme").json(&refused);
    assert_eq!(Answer::of(cancel).await.with(200)[0]["outcome"], "spooled");
    host.kill_gateway().await;
    host.restart_gateway().await;
    let unread = put(&host, "f", "acme").await;
    assert_eq!(unread.with(503)["code"], "DQ-G128", "a put must not pass a quota that nobody has read");
    put(&host, "g", "root").await.with(202);

    let _compensator = host.drained().await;
    let topics = host.stage.deployment.admin.topics().await.unwrap();
    assert_eq!(topics, [topic("acme/t"), topic("t")]);
    assert_eq!(host.stage.deployment.admin.topic(&topic("acme/t")).count().await.unwrap().delayed, 3);
}

#[tokio::test]
async fn a_job_of_lmstfy_is_published_republished_and_deleted_through_the_spool() {
    let lmstfy = "[lmstfy]\nenabled = true\nlisten = \"127.0.0.1:0\"\nadmin_listen = \"127.0.0.1:0\"\ncheck_tokens = false\n\
                  [lmstfy.pools.other]\nnamespace = \"other\"\n";
    let mut host = Host::with("", lmstfy).await;
    let mut ports = Ports::of(&mut host.stage.gateway).await;
    let put = async |ports: &Ports, path: &str, body: String| {
        Answer::of(ports.call(Method::PUT, path).body(body)).await
    };
    let id = |published: &Answer| published.with(201)["job_id"].as_str().unwrap().to_owned();
    let delete = async |ports: &Ports, id: &str| {
        Answer::of(ports.call(Method::DELETE, &format!("/api/ns/q/job/{id}"))).await.with(204);
    };
    let old = id(&put(&ports, "/api/ns/q?delay=3600", "old".to_owned()).await);
    host.kill_redis().await;

    let large = id(&put(&ports, "/api/ns/q", "x".repeat(1024 * 1024)).await);
    let new = id(&put(&ports, &format!("/api/ns/q/job/{old}?delay=3600"), "new".to_owned()).await);
    let gone = id(&put(&ports, "/api/ns/q", "gone".to_owned()).await);
    delete(&ports, &gone).await;
    let bulk = put(&ports, "/api/ns/q/bulk", "[1, 2]".to_owned()).await.with(201);
    ports.token = "other:x".to_owned();
    let pool = put(&ports, "/api/ns/q", "x".to_owned()).await;
    assert_eq!(pool.status, 500, "the compensator knows the deployment of the gateway alone");
    ports.token = String::new();
    let late = id(&put(&ports, "/api/ns/q", "late".to_owned()).await);
    host.stage.deployment.server.resume().await;
    wait_until("an answer of Redis", SHORT, async || {
        Answer::of(ports.call(Method::GET, "/api/ns/q/size")).await.status == 200
    })
    .await;
    delete(&ports, &late).await;

    let _compensator = host.drained().await;
    let job = async |id: &str| Answer::of(ports.call(Method::GET, &format!("/api/ns/q/job/{id}"))).await;
    for ended in [&old, &gone, &late] {
        assert_eq!(job(ended).await.status, 404, "{ended}");
    }
    job(&new).await.with(200);
    let mut ids = vec![json!(large), bulk["job_ids"][0].clone(), bulk["job_ids"][1].clone()];
    for _ in 0..3 {
        let consumed = Answer::of(ports.call(Method::GET, "/api/ns/q?timeout=5")).await.with(200);
        ids.retain(|id| *id != consumed["job_id"]);
    }
    assert!(ids.is_empty(), "not consumed: {ids:?}");
    assert_eq!(host.books().rejected, 0);
}
