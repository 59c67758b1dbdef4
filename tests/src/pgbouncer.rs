//! A private PgBouncer.

use crate::deadline::LONG;
use crate::folder::Folder;
use crate::ports::free_port;
use crate::postgres_server::{PostgresServer, lend, lent};
use crate::process::Process;
use std::fs;
use std::path::Path;

/// A running pooler. Dropping the pooler kills the process and removes the folder.
#[derive(Debug)]
pub struct PgBouncer {
    port: u16,
    _process: Process,
    _folder: Folder,
}

// === impl PgBouncer ===

impl PgBouncer {
    /// Starts a pooler with transaction pooling, and waits until ready; a failure shows the output.
    pub async fn start(before: &PostgresServer) -> Self {
        let (folder, port) = (Folder::new("pgbouncer"), free_port());
        lend(folder.path());
        let settings = format!(
            "[databases]\npostgres = host=127.0.0.1 port={} user=postgres\n[pgbouncer]\nlisten_addr = 127.0.0.1\n\
             listen_port = {port}\nunix_socket_dir =\nauth_type = any\npool_mode = transaction\n\
             server_login_retry = 1\n",
            before.port()
        );
        let file = folder.join("pgbouncer.ini");
        fs::write(&file, settings).expect("the folder is new");
        let mut command = lent(Path::new("/usr/sbin/pgbouncer"), &folder);
        command.arg(&file);
        let mut process = Process::spawn("PgBouncer", command);
        process.wait_for_line("process up", LONG).await;
        Self { port, _process: process, _folder: folder }
    }

    /// The URL of the database behind the pooler.
    #[must_use]
    pub fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }
}
