//! A private nats-server with JetStream.

use crate::deadline::{SHORT, wait_until};
use crate::folder::Folder;
use crate::ports::free_port;
use crate::process::{Process, Signal};
use std::process::Command;
use tokio::net::TcpStream;

/// A running (or stopped) server. Dropping the server kills the process and removes the folder.
#[derive(Debug)]
pub struct NatsServer {
    folder: Folder,
    port: u16,
    arguments: Vec<String>,
    process: Option<Process>,
}

// === impl NatsServer ===

impl NatsServer {
    /// Starts a server and waits until it accepts connections; `arguments` extend the command line of `nats-server`.
    pub async fn start(arguments: &[&str]) -> Self {
        let arguments = arguments.iter().map(|&a| a.to_owned()).collect();
        let mut server = Self { folder: Folder::new("nats"), port: free_port(), arguments, process: None };
        server.resume().await;
        server
    }

    /// The address, `127.0.0.1:PORT`; constant over restarts.
    #[must_use]
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// The URL.
    #[must_use]
    pub fn url(&self) -> String {
        format!("nats://{}", self.address())
    }

    /// Kills the server (SIGKILL) and waits for the end.
    pub async fn kill(&mut self) {
        let mut process = self.process.take().expect("a stopped nats-server cannot be killed");
        process.end_by(Signal::KILL, SHORT).await;
    }

    /// Restarts the server on the same data. A no-op while running.
    pub async fn resume(&mut self) {
        if self.process.is_some() {
            return;
        }
        let mut command = Command::new("nats-server");
        command
            .args(["-a", "127.0.0.1", "-p", &self.port.to_string(), "-js", "-sd"])
            .arg(self.folder.join("data"));
        command.args(&self.arguments);
        // Debian installs daemons outside a normal user's PATH.
        command.env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
        let process = self.process.insert(Process::spawn("nats-server", command));
        process.wait_for_line("Server is ready", SHORT).await;
        let address = format!("127.0.0.1:{}", self.port);
        wait_until("nats-server to take connections", SHORT, || async {
            TcpStream::connect(&address).await.is_ok()
        })
        .await;
    }

    /// Freezes the server (SIGSTOP).
    pub fn freeze(&self) {
        self.process.iter().for_each(|p| p.signal(Signal::STOP));
    }

    /// Resumes the server (SIGCONT).
    pub fn thaw(&self) {
        self.process.iter().for_each(|p| p.signal(Signal::CONT));
    }
}
