//! A private nats-server with JetStream.

use crate::deadline::{SHORT, wait_until};
use crate::folder::Folder;
use crate::ports::free_port;
use crate::process::{Process, Signal};
use std::process::Command;
use tokio::net::TcpStream;

/// A running (or stopped) server. Dropping it kills it and removes its folder.
#[derive(Debug)]
pub struct NatsServer {
    folder: Folder,
    port: u16,
    arguments: Vec<String>,
    process: Option<Process>,
}

// === impl NatsServer ===

impl NatsServer {
    /// Starts a server and waits until it accepts connections; `arguments` are further arguments of `nats-server`.
    ///
    /// # Panics
    /// If it does not start; the message contains its output.
    pub async fn start(arguments: &[&str]) -> Self {
        let arguments = arguments.iter().map(|&a| a.to_owned()).collect();
        let mut server = Self { folder: Folder::new("nats"), port: free_port(), arguments, process: None };
        server.resume().await;
        server
    }

    /// Its address, `127.0.0.1:PORT`; the same after a restart.
    #[must_use]
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Its URL.
    #[must_use]
    pub fn url(&self) -> String {
        format!("nats://{}", self.address())
    }

    /// Kills it (SIGKILL) and waits for its end.
    ///
    /// # Panics
    /// If it is already stopped.
    pub async fn kill(&mut self) {
        let mut process = self.process.take().expect("a stopped nats-server cannot be killed");
        process.end_by(Signal::KILL, SHORT).await;
    }

    /// Starts it again on the same data. Does nothing while it runs.
    ///
    /// # Panics
    /// If it does not start; the message contains its output.
    pub async fn resume(&mut self) {
        if self.process.is_some() {
            return;
        }
        let mut command = Command::new("nats-server");
        command
            .args(["-a", "127.0.0.1", "-p", &self.port.to_string(), "-js", "-sd"])
            .arg(self.folder.join("data"));
        command.args(&self.arguments);
        // Debian keeps daemons where only root's PATH looks.
        command.env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
        let process = self.process.insert(Process::spawn("nats-server", command));
        process.wait_for_line("Server is ready", SHORT).await;
        let address = format!("127.0.0.1:{}", self.port);
        wait_until("nats-server to take connections", SHORT, || async {
            TcpStream::connect(&address).await.is_ok()
        })
        .await;
    }

    /// Freezes it (SIGSTOP).
    pub fn freeze(&self) {
        self.process.iter().for_each(|p| p.signal(Signal::STOP));
    }

    /// Resumes it (SIGCONT).
    pub fn thaw(&self) {
        self.process.iter().for_each(|p| p.signal(Signal::CONT));
    }
}
