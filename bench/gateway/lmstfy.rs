//! lmstfy's own server on a Redis of its own, with the settings that it insists on.

use crate::rates::{Course, all};
use crate::wire::Connection;
use delayq_tests::deadline::{SHORT, wait_until};
use delayq_tests::folder::Folder;
use delayq_tests::process::Process;
use delayq_tests::redis_server::{RedisOptions, RedisServer};
use serde_json::Value;
use std::io;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

const CALLERS: usize = 64;
const BATCH: usize = 64;

pub(crate) struct Lmstfy {
    address: String,
    token: String,
    process: Process,
    _kept: (Folder, RedisServer),
}

// === impl Lmstfy ===

impl Lmstfy {
    pub(crate) async fn start(program: &Path) -> Self {
        let redis = RedisServer::start_with(RedisOptions::default().append_only("everysec")).await;
        let folder = Folder::new("lmstfy");
        let (port, admin) = (free_port(), free_port());
        let at = redis.url().trim_start_matches("redis://").trim_end_matches('/').to_owned();
        let text = format!(
            "Host = \"127.0.0.1\"\nPort = {port}\nAdminHost = \"127.0.0.1\"\nAdminPort = {admin}\nLogLevel = \"error\"\n\
             EnableAccessLog = false\n[AdminRedis]\nAddr = \"{at}\"\n[Pool]\n[Pool.default]\nAddr = \"{at}\"\n"
        );
        let config = folder.join("lmstfy.toml");
        std::fs::write(&config, text).expect("the folder is writable");
        let program = program.canonicalize().expect("the program of lmstfy is there");
        let mut command = Command::new(program);
        command.arg("-c").arg(&config);
        // The server writes a file there.
        command.current_dir(folder.path());
        let process = Process::spawn("lmstfy", command);
        let admin = format!("127.0.0.1:{admin}");
        wait_until("lmstfy", SHORT, async || Connection::open(&admin, "").await.is_ok()).await;
        let mut connection = Connection::open(&admin, "").await.expect("lmstfy listens");
        let made = connection.json("POST /token/ns?description=bench", "").await.expect("lmstfy answers");
        let made: Value = serde_json::from_slice(&made.body).expect("a token in JSON");
        let token = made["token"].as_str().expect("a token").to_owned();
        Self { address: format!("127.0.0.1:{port}"), token, process, _kept: (folder, redis) }
    }

    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    pub(crate) async fn puts(&self, course: Course) -> io::Result<()> {
        let payload = "x".repeat(200);
        let caller = async |_| {
            let mut connection = Connection::open(&self.address, "").await?;
            let line = format!("PUT /api/ns/put?delay=3600&ttl=0&token={}", self.token);
            while course.goes_on() {
                let answer = connection.json(&line, &payload).await?;
                assert_eq!(answer.status, 201, "{}", String::from_utf8_lossy(&answer.body));
                course.did(1);
            }
            Ok(())
        };
        all(CALLERS, caller).await
    }

    pub(crate) async fn consumes(&self, course: Course) -> io::Result<()> {
        let fresh = serde_json::to_string(&vec!["x".repeat(100); BATCH]).expect("texts");
        let token = &self.token;
        let caller = async |_| {
            let mut connection = Connection::open(&self.address, "").await?;
            while course.goes_on() {
                let taken = connection.json(&format!("GET /api/ns/q?ttr=60&token={token}"), "").await?;
                if taken.status == 404 {
                    connection.json(&format!("PUT /api/ns/q/bulk?ttl=0&token={token}"), &fresh).await?;
                    continue;
                }
                let job: Value = serde_json::from_slice(&taken.body).map_err(io::Error::other)?;
                let id = job["job_id"].as_str().unwrap_or_default();
                let ack = connection.json(&format!("DELETE /api/ns/q/job/{id}?token={token}"), "").await?;
                assert_eq!(ack.status, 204, "{}", String::from_utf8_lossy(&ack.body));
                course.did(1);
            }
            Ok(())
        };
        all(CALLERS, caller).await
    }
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has ports");
    listener.local_addr().expect("a bound address").port()
}
