//! A gateway that serves lmstfy's API, and requests of its clients.

use crate::stage::{Answer, Running, Stage};
use delayq_tests::deadline::SHORT;
use reqwest::{Client, Method, RequestBuilder};
use serde_json::Value;

pub(crate) struct Scene {
    pub(crate) stage: Stage,
    pub(crate) ports: Ports,
}

pub(crate) struct Ports {
    pub(crate) api: String,
    pub(crate) admin: String,
    pub(crate) token: String,
    client: Client,
}

fn settings(gateway: &str, more: &str) -> String {
    format!(
        "{gateway}[lmstfy]\nenabled = true\nlisten = \"127.0.0.1:0\"\nadmin_listen = \"127.0.0.1:0\"\n{more}"
    )
}

// === impl Scene ===

impl Scene {
    pub(crate) async fn start() -> Self {
        Self::with("", "").await
    }

    pub(crate) async fn with(gateway: &str, more: &str) -> Self {
        let mut stage = Stage::start(&settings(gateway, more)).await;
        let mut ports = Ports::of(&mut stage.gateway).await;
        ports.token = ports.new_token("ns").await;
        Self { stage, ports }
    }

    pub(crate) async fn another(&self) -> (Running, Ports) {
        let mut gateway = self.stage.another_with(&settings("", "")).await;
        let mut ports = Ports::of(&mut gateway).await;
        ports.token.clone_from(&self.ports.token);
        (gateway, ports)
    }

    pub(crate) async fn publish(&self, queue: &str, query: &str, body: &str) -> String {
        let request = self.ports.call(Method::PUT, &format!("/api/ns/{queue}?{query}")).body(body.to_owned());
        Answer::of(request).await.with(201)["job_id"].as_str().unwrap().to_owned()
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        Answer::of(self.ports.call(Method::GET, path)).await
    }

    pub(crate) async fn put(&self, path: &str, body: &str) -> Answer {
        Answer::of(self.ports.call(Method::PUT, path).body(body.to_owned())).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Answer {
        Answer::of(self.ports.call(Method::DELETE, path)).await
    }

    pub(crate) async fn size(&self, queue: &str) -> u64 {
        self.get(&format!("/api/ns/{queue}/size")).await.with(200)["size"].as_u64().unwrap()
    }

    /// Makes a dead letter of each job of a queue by leases that run out; a timer is needed.
    pub(crate) async fn let_die(&self, queue: &str, jobs: usize) {
        for _ in 0..jobs {
            self.get(&format!("/api/ns/{queue}?ttr=0&timeout=60")).await.with(200);
        }
        let path = format!("/api/ns/{queue}/deadletter/size");
        let are_dead = async || self.get(&path).await.with(200)["size"] == jobs;
        delayq_tests::deadline::wait_until("the dead letters", SHORT, are_dead).await;
    }
}

// === impl Ports ===

impl Ports {
    pub(crate) async fn of(gateway: &mut Running) -> Self {
        let line = gateway.process.wait_for_line("lmstfy listening", SHORT).await;
        let logged: Value = serde_json::from_str(&line).expect("a log line is an object");
        let address = |key: &str| format!("http://{}", logged[key].as_str().unwrap());
        let (api, admin, token) = (address("address"), address("admin"), String::new());
        Self {
            api,
            admin,
            token,
            client: Client::builder().redirect(reqwest::redirect::Policy::none()).build().unwrap(),
        }
    }

    pub(crate) fn call(&self, method: Method, path: &str) -> RequestBuilder {
        self.call_as(&self.token, method, path)
    }

    pub(crate) fn call_as(&self, token: &str, method: Method, path: &str) -> RequestBuilder {
        let request = self.client.request(method, format!("{}{path}", self.api));
        if token.is_empty() { request } else { request.header("X-Token", token) }
    }

    pub(crate) fn admin(&self, method: Method, path: &str) -> RequestBuilder {
        self.client.request(method, format!("{}{path}", self.admin))
    }

    pub(crate) async fn new_token(&self, namespace: &str) -> String {
        let path = format!("/token/{namespace}?description=test");
        let made = Answer::of(self.admin(Method::POST, &path)).await.with(201);
        made["token"].as_str().unwrap().to_owned()
    }
}
