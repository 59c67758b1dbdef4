//! The servers of a measurement: a Redis, gateways with two tenants, and a timer.

use delayq::{Client, Producer, ProducerOptions, ShardCount};
use delayq_gateway::token_line;
use delayq_tests::binary::Binary;
use delayq_tests::deadline::SHORT;
use delayq_tests::deployment::Deployment;
use delayq_tests::folder::Folder;
use delayq_tests::process::Process;
use delayq_tests::redis_server::RedisServer;
use std::process::Command;

/// Tenants, each with a token of the same name.
pub(crate) const NOISY: &str = "noisy";
pub(crate) const QUIET: &str = "quiet";
/// The token without a tenant, of the page and of other figures.
pub(crate) const PAGE: &str = "page";

const MAX_CONNECTIONS: u32 = 25_000;

pub(crate) struct Stage {
    pub(crate) gateway: RunningGateway,
    _folder: Folder,
    pub(crate) deployment: Deployment<RedisServer>,
    _timer: Process,
}

pub(crate) struct RunningGateway {
    process: Process,
    pub(crate) address: String,
}

// === impl Stage ===

impl Stage {
    pub(crate) async fn start() -> Self {
        let server = RedisServer::private().await;
        let deployment = Deployment::on(server, ShardCount::DEFAULT.get()).await;
        let folder = Folder::new("gateway-bench");
        let of = |tenant: &str| token_line(tenant, tenant).replace('\n', &format!(" tenant={tenant}\n"));
        let lines = [of(NOISY), of(QUIET), token_line(PAGE, PAGE)].concat();
        std::fs::write(folder.join("tokens"), lines).expect("the folder is writable");
        let gateway = RunningGateway::start(&folder, &deployment.sections()).await;
        let config = folder.join("timer.toml");
        let rest = "[etcd]\nenabled = false\n[admin]\nlisten = \"\"\n[sweep]\nevery = \"0s\"\n";
        std::fs::write(&config, deployment.sections() + rest).expect("the folder is writable");
        let timer = Binary::new("delayq-timer").arg(&config).start();
        Self { _folder: folder, gateway, deployment, _timer: timer }
    }

    /// With a connection of its own, as a program on another host has it.
    pub(crate) fn producer(&self) -> Producer {
        Producer::start(self.client(), ProducerOptions::default())
    }

    pub(crate) fn client(&self) -> Client {
        self.deployment.client.apart()
    }
}

// === impl RunningGateway ===

impl RunningGateway {
    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    pub(crate) fn resident_kib(&self) -> u64 {
        self.process.resident_kib().expect("the gateway runs")
    }

    async fn start(folder: &Folder, sections: &str) -> Self {
        let tokens = folder.join("tokens");
        let text = format!(
            "{sections}[admin]\nlisten = \"\"\n[gateway]\nlisten = \"127.0.0.1:0\"\ntokens = \"{}\"\n\
             max_connections = {MAX_CONNECTIONS}\nmax_polls = {MAX_CONNECTIONS}\n",
            tokens.display()
        );
        let config = folder.join("gateway.toml");
        std::fs::write(&config, text).expect("the folder is writable");
        let mut command = Command::new(Binary::path("delayq-gateway"));
        command.arg(&config);
        let mut process = Process::spawn("delayq-gateway", command);
        let line = process.wait_for_line("gateway listening", SHORT).await;
        let logged: serde_json::Value = serde_json::from_str(&line).expect("a log line is an object");
        let address = logged["address"].as_str().expect("the line names the address").to_owned();
        Self { process, address }
    }
}
