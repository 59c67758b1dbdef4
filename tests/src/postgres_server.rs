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

/// The user that root lends it, for it refuses to run as root.
const USER: &str = "postgres";

/// A running (or stopped) server. Dropping it kills it and removes its folder.
#[derive(Debug)]
pub struct PostgresServer {
    folder: Folder,
    port: u16,
    settings: Vec<(String, String)>,
    process: Option<Process>,
}

// === impl PostgresServer ===

impl PostgresServer {
    /// Starts a server that flushes nothing to the disk (it survives kills, but no power cut), and waits until it is up.
    ///
    /// # Panics
    /// If it does not come up; the message contains its output.
    pub async fn start() -> Self {
        Self::start_with(&[]).await
    }

    /// The same, with these settings of `postgresql.conf`.
    ///
    /// # Panics
    /// As [`Self::start`].
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

    /// One that speaks TLS too, with this certificate.
    ///
    /// # Panics
    /// As [`Self::start`].
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

    /// What its `pg_dump` makes of its database.
    ///
    /// # Panics
    /// If it cannot.
    #[must_use]
    pub fn dump(&self) -> Vec<u8> {
        let made = Command::new(program("pg_dump")).arg(self.url()).output().expect("pg_dump can be started");
        assert!(made.status.success(), "pg_dump: {}", String::from_utf8_lossy(&made.stderr));
        made.stdout
    }

    /// Runs statements, such as a dump of another one, in `psql`.
    ///
    /// # Panics
    /// If it cannot.
    pub fn run(&self, statements: impl AsRef<[u8]>) {
        let file = self.folder.join("statements.sql");
        fs::write(&file, statements).expect("the statements can be written");
        let mut psql = Command::new(program("psql"));
        let made = psql.args(["-q", "-v", "ON_ERROR_STOP=1", "-f"]).arg(file).arg(self.url()).output();
        let made = made.expect("psql can be started");
        assert!(made.status.success(), "psql: {}", String::from_utf8_lossy(&made.stderr));
    }

    /// Its URL.
    #[must_use]
    pub fn url(&self) -> String {
        format!("postgres://{USER}@127.0.0.1:{}/postgres", self.port)
    }

    /// Its TCP port; the same after a restart.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The process id of the running server.
    ///
    /// # Panics
    /// If it is stopped.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.process.as_ref().expect("the PostgreSQL is stopped").id()
    }

    /// Kills all of its processes (SIGKILL) and waits for their end.
    ///
    /// # Panics
    /// If it is already stopped, or does not end in time.
    pub async fn kill(&mut self) {
        let mut process = self.process.take().expect("a stopped PostgreSQL cannot be killed");
        // Each of its children leads a group of its own.
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

    /// Starts it again on the same data. Does nothing while it runs.
    ///
    /// # Panics
    /// If it does not come up; the message contains its output.
    pub async fn resume(&mut self) {
        if self.process.is_some() {
            return;
        }
        let mut server = lent(&program("postgres"), &self.folder);
        server.arg("-D").arg(self.folder.join("data")).arg("-k").arg(self.folder.path());
        server.args(["-h", "127.0.0.1", "-p", &self.port.to_string(), "-c", "fsync=off"]);
        // In files of its folder, which go with it: a killed server leaves its segments in /dev/shm.
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

    /// The id of the System V segment by which it guards its data. It is removed at once: the system keeps such a segment
    /// for as long as a process has it, and would keep that of a killed server for ever.
    ///
    /// # Panics
    /// If it never ran.
    #[must_use]
    pub fn segment(&self) -> u32 {
        let lock =
            fs::read_to_string(self.folder.join("data/postmaster.pid")).expect("it has written its lock");
        let id = lock.lines().nth(6).and_then(|line| line.split_whitespace().nth(1)?.parse().ok());
        id.unwrap_or_else(|| panic!("no segment in the lock of PostgreSQL:\n{lock}"))
    }
}

/// Makes a folder, and the way to it, usable by the lent user.
pub(crate) fn lend(folder: &Path) {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    give(folder);
    let run = folder.parent().expect("a test's folder is inside the run's");
    fs::set_permissions(run, Permissions::from_mode(0o711)).expect("the run's folder is this user's");
}

/// Makes the lent user the owner, if there is need of one.
fn give(path: &Path) {
    if rustix::process::geteuid().is_root() {
        let owned = Command::new("chown").arg(USER).arg(path).status().expect("chown can be started");
        assert!(owned.success(), "there is no user {USER}: apt-get install postgresql");
    }
}

/// A program that refuses to run as root, as a user that it accepts.
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

/// Where Debian keeps the newest version of it.
fn program(name: &str) -> PathBuf {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let found = versions.map(|version| version.path().join("bin").join(name)).filter(|path| path.is_file());
    found.max().unwrap_or_else(|| panic!("{name} is missing: apt-get install postgresql"))
}
