//! A private PostgreSQL.

use crate::certs::Certificate;
use crate::deadline::{LONG, wait_until};
use crate::folder::Folder;
use crate::ports::free_port;
use crate::process::{Process, Signal, has_ended};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The user in place of root: PostgreSQL refuses to run as root.
const USER: &str = "postgres";

/// A running (or stopped) server. Dropping the server kills the process and removes the folder.
#[derive(Debug)]
pub struct PostgresServer {
    folder: Folder,
    port: u16,
    settings: Vec<(String, String)>,
    process: Option<Process>,
}

// === impl PostgresServer ===

impl PostgresServer {
    /// Starts a server without flushes to disk (data survives kills, but no power cut); a failure shows the output.
    pub async fn start() -> Self {
        Self::start_with(&[]).await
    }

    /// As [`Self::start`], with these settings of `postgresql.conf`.
    pub async fn start_with(settings: &[(&str, &str)]) -> Self {
        let folder = Folder::new("postgres");
        lend(folder.path());
        let initdb = lent(&program("initdb"), &folder)
            .args(["-A", "trust", "-U", USER, "--no-sync", "-D"])
            .arg(folder.join("data"))
            .output()
            .expect("initdb can be started");
        assert!(initdb.status.success(), "initdb: {}", String::from_utf8_lossy(&initdb.stderr));
        let settings = settings.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect();
        let mut server = Self { folder, port: free_port(), settings, process: None };
        server.resume().await;
        server
    }

    /// Starts a server that accepts TLS too, with this certificate.
    pub async fn start_tls(certificate: &Certificate) -> Self {
        let mut server = Self::start().await;
        server.kill().await;
        for (file, from) in [("server.crt", &certificate.certificate), ("server.key", &certificate.key)] {
            let to = server.folder.join("data").join(file);
            fs::copy(from, &to).expect("the certificate can be copied");
            fs::set_permissions(&to, Permissions::from_mode(0o600)).expect("the copy is this user's");
            give(&to);
        }
        server.settings.push(("ssl".to_owned(), "on".to_owned()));
        server.resume().await;
        server
    }

    /// The output of `pg_dump`.
    #[must_use]
    pub fn dump(&self) -> Vec<u8> {
        let made = Command::new(program("pg_dump")).arg(self.url()).output().expect("pg_dump can be started");
        assert!(made.status.success(), "pg_dump: {}", String::from_utf8_lossy(&made.stderr));
        made.stdout
    }

    /// Runs statements, such as a dump, in `psql`.
    pub fn run(&self, statements: impl AsRef<[u8]>) {
        let file = self.folder.join("statements.sql");
        fs::write(&file, statements).expect("the statements can be written");
        let mut psql = Command::new(program("psql"));
        let made = psql.args(["-q", "-v", "ON_ERROR_STOP=1", "-f"]).arg(file).arg(self.url()).output();
        let made = made.expect("psql can be started");
        assert!(made.status.success(), "psql: {}", String::from_utf8_lossy(&made.stderr));
    }

    /// The URL.
    #[must_use]
    pub fn url(&self) -> String {
        format!("postgres://{USER}@127.0.0.1:{}/postgres", self.port)
    }

    /// The TCP port; constant over restarts.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The process id of the running server.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.process.as_ref().expect("the PostgreSQL is stopped").id()
    }

    /// Kills all processes of the server (SIGKILL) and waits for their end.
    pub async fn kill(&mut self) {
        let mut process = self.process.take().expect("a stopped PostgreSQL cannot be killed");
        // Each child leads its own group.
        let id = process.id();
        let children = fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap_or_default();
        let children: Vec<&str> = children.split_whitespace().collect();
        process.end_by(Signal::KILL, LONG).await;
        let _ = Command::new("kill").args(["-s", "KILL", "--"]).args(&children).output();
        wait_until("the end of its children", LONG, || async {
            children.iter().all(|child| has_ended(child))
        })
        .await;
    }

    /// Restarts the server on the same data. A no-op while running.
    pub async fn resume(&mut self) {
        if self.process.is_some() {
            return;
        }
        let mut server = lent(&program("postgres"), &self.folder);
        server.arg("-D").arg(self.folder.join("data")).arg("-k").arg(self.folder.path());
        server.args(["-h", "127.0.0.1", "-p", &self.port.to_string(), "-c", "fsync=off"]);
        // Uses files in the server's folder: a killed server leaves its segments in /dev/shm.
        server.args(["-c", "dynamic_shared_memory_type=mmap"]);
        for (name, value) in &self.settings {
            server.arg("-c").arg(format!("{name}={value}"));
        }
        let process = self.process.insert(Process::spawn("PostgreSQL", server));
        process.wait_for_line("ready to accept connections", LONG).await;
        let segment = self.segment().to_string();
        let removed = Command::new("ipcrm").args(["--shmem-id", &segment]).status();
        assert!(removed.expect("ipcrm can be started").success(), "segment {segment} is not removed");
    }

    /// The id of the System V segment that guards the data. The segment is marked for removal at once: the system keeps
    /// it while a process has it attached, and would keep a killed server's segment for ever.
    #[must_use]
    pub fn segment(&self) -> u32 {
        let lock =
            fs::read_to_string(self.folder.join("data/postmaster.pid")).expect("it has written its lock");
        let id = lock.lines().nth(6).and_then(|line| line.split_whitespace().nth(1)?.parse().ok());
        id.unwrap_or_else(|| panic!("no segment in the lock of PostgreSQL:\n{lock}"))
    }
}

/// Gives the substitute user access to a folder and its parents.
pub(crate) fn lend(folder: &Path) {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    give(folder);
    let run = folder.parent().expect("a test's folder is inside the run's");
    fs::set_permissions(run, Permissions::from_mode(0o711)).expect("the run's folder is this user's");
}

/// If needed.
fn give(path: &Path) {
    if rustix::process::geteuid().is_root() {
        let owned = Command::new("chown").arg(USER).arg(path).status().expect("chown can be started");
        assert!(owned.success(), "there is no user {USER}: apt-get install postgresql");
    }
}

pub(crate) fn lent(program: &Path, folder: &Folder) -> Command {
    let mut command = if rustix::process::geteuid().is_root() {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", USER, "--regid", USER, "--init-groups"]).arg(program);
        command
    } else {
        Command::new(program)
    };
    command.current_dir(folder.path());
    command
}

/// The newest version.
fn program(name: &str) -> PathBuf {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let found = versions.map(|version| version.path().join("bin").join(name)).filter(|path| path.is_file());
    found.max().unwrap_or_else(|| panic!("{name} is missing: apt-get install postgresql"))
}
