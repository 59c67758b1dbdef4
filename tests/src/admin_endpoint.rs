//! The admin endpoint of a running service, from a scraper's view.

use crate::deadline::{SHORT, within};
use crate::process::Process;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// The address of an admin endpoint.
#[derive(Clone, Debug)]
pub struct AdminEndpoint(String);

// === impl AdminEndpoint ===

impl AdminEndpoint {
    /// The endpoint at this address, `host:port`.
    #[must_use]
    pub fn at(address: impl Into<String>) -> Self {
        Self(address.into())
    }

    /// The endpoint of a process with `listen = "127.0.0.1:0"`, at the address in its log.
    pub async fn of(process: &mut Process) -> Self {
        let line = process.wait_for_line("admin endpoint listening", SHORT).await;
        let logged: serde_json::Value = serde_json::from_str(&line).expect("a log line is an object");
        Self(logged["address"].as_str().expect("the line names the address").to_owned())
    }

    /// The status and body of the answer to `GET path`.
    pub async fn get(&self, path: &str) -> (u16, String) {
        let answer = within("the admin endpoint", SHORT, async {
            let mut stream = TcpStream::connect(&self.0).await?;
            stream.write_all(format!("GET {path} HTTP/1.0\r\nHost: {}\r\n\r\n", self.0).as_bytes()).await?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await?;
            std::io::Result::Ok(answer)
        });
        let answer = answer.await.unwrap_or_else(|error| panic!("{} does not answer: {error}", self.0));
        let (head, body) = answer.split_once("\r\n\r\n").expect("an answer has a head");
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        (status.expect("a head has a status"), body.to_owned())
    }
}
