//! A private MariaDB.

use crate::certs::Certificate;
use crate::deadline::LONG;
use crate::folder::Folder;
use crate::ports::free_port;
use crate::process::{Process, Signal};
use std::path::Path;
use std::process::Command;

const UNFLUSHED: [&str; 3] =
    ["--innodb-flush-log-at-trx-commit=2", "--innodb-flush-method=nosync", "--innodb-doublewrite=0"];

/// A running (or stopped) server with an empty database `shop`. Dropping the server kills the process and removes the folder.
#[derive(Debug)]
pub struct MariadbServer {
    folder: Folder,
    port: u16,
    settings: Vec<String>,
    process: Option<Process>,
}

// === impl MariadbServer ===

impl MariadbServer {
    /// Starts a server without flushes to disk (data survives kills, but no power cut); a failure shows the output.
    pub async fn start() -> Self {
        Self::start_with(Vec::new()).await
    }

    /// Starts a server that accepts only TLS, with this certificate.
    pub async fn start_tls(certificate: &Certificate) -> Self {
        let file = |name: &str, path: &Path| format!("--{name}={}", path.display());
        let pair = [file("ssl-cert", &certificate.certificate), file("ssl-key", &certificate.key)];
        let settings =
            pair.into_iter().chain(["--require-secure-transport=ON".to_owned()]).collect::<Vec<_>>();
        Self::start_with(settings).await
    }

    async fn start_with(settings: Vec<String>) -> Self {
        let folder = Folder::new("mariadb");
        let made = Command::new("mariadb-install-db")
            .args([
                "--no-defaults",
                "--auth-root-authentication-method=normal",
                "--skip-test-db",
                "--user=root",
            ])
            .args(UNFLUSHED)
            .arg(format!("--datadir={}", folder.join("data").display()))
            .env("TMPDIR", folder.path())
            .output()
            .expect("mariadb-install-db can be started: apt-get install mariadb-server-core");
        assert!(made.status.success(), "mariadb-install-db: {}", String::from_utf8_lossy(&made.stderr));
        let start = folder.join("start.sql");
        std::fs::write(&start, "CREATE DATABASE IF NOT EXISTS shop;\n").expect("the folder is new");
        let mut server = Self { folder, port: free_port(), settings, process: None };
        server.resume().await;
        server
    }

    /// The URL.
    #[must_use]
    pub fn url(&self) -> String {
        format!("mysql://root@127.0.0.1:{}/shop", self.port)
    }

    /// Kills the server (SIGKILL) and waits for the end.
    pub async fn kill(&mut self) {
        let mut process = self.process.take().expect("a stopped MariaDB cannot be killed");
        process.end_by(Signal::KILL, LONG).await;
    }

    /// Restarts the server on the same data. A no-op while running.
    pub async fn resume(&mut self) {
        if self.process.is_some() {
            return;
        }
        let folder = &self.folder;
        let mut server = Command::new("/usr/sbin/mariadbd");
        // A starting server deletes all other servers' temporary tables in the shared temporary folder.
        server.env("TMPDIR", folder.path());
        // MariaDB refuses to run as root without this option, which is harmless for other users.
        server.args(["--no-defaults", "--user=root", "--bind-address=127.0.0.1", "--skip-log-bin"]);
        // Interleaves the numbers of concurrent statements, as MySQL does by default.
        server.args(UNFLUSHED).arg("--innodb-autoinc-lock-mode=2");
        server.arg(format!("--port={}", self.port)).args(&self.settings);
        for (name, file) in [
            ("datadir", "data"),
            ("socket", "socket"),
            ("pid-file", "pid"),
            ("init-file", "start.sql"),
            ("plugin-dir", "plugins"),
        ] {
            server.arg(format!("--{name}={}", folder.join(file).display()));
        }
        let process = self.process.insert(Process::spawn("MariaDB", server));
        process.wait_for_line("ready for connections", LONG).await;
    }
}
