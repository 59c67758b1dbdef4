//! The programs of this workspace, started as by a user.
//!
//! The programs come from the folder of the running test's build; `make test` builds the programs first.

use crate::deadline::within;
use crate::process::Process;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use std::ffi::OsStr;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

/// A program of the workspace, with its arguments.
#[derive(Debug)]
pub struct Binary {
    name: String,
    command: Command,
}

/// The result of a finished program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished {
    /// Exit code; `None` if a signal ended the program.
    pub code: Option<i32>,
    /// All of standard output.
    pub stdout: String,
    /// All of standard error.
    pub stderr: String,
}

// === impl Binary ===

impl Binary {
    /// The program of this name, such as `delayq` or `delayq-timer`.
    ///
    /// The program inherits only `PATH`, `HOME` and `TMPDIR`: the user's settings must not affect tests.
    #[must_use]
    #[allow(clippy::disallowed_methods, reason = "hands three variables through, reads none")]
    pub fn new(name: &str) -> Self {
        let mut command = Command::new(Self::path(name));
        command.env_clear();
        for kept in ["PATH", "HOME", "TMPDIR"] {
            if let Some(value) = std::env::var_os(kept) {
                command.env(kept, value);
            }
        }
        Self { name: name.to_owned(), command }
    }

    /// The path of the program of this name.
    #[must_use]
    pub fn path(name: &str) -> PathBuf {
        let path = folder_of_binaries().join(name);
        assert!(
            path.is_file(),
            "{} is not there: run `cargo build --workspace --bins` first",
            path.display()
        );
        path
    }

    /// Adds an argument.
    #[must_use]
    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.command.arg(arg);
        self
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<I: IntoIterator<Item = S>, S: AsRef<OsStr>>(mut self, args: I) -> Self {
        self.command.args(args);
        self
    }

    /// Sets an environment variable.
    #[must_use]
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Sets the working folder.
    #[must_use]
    pub fn current_dir(mut self, path: impl Into<PathBuf>) -> Self {
        self.command.current_dir(path.into());
        self
    }

    /// Starts the program in the background.
    #[must_use]
    pub fn start(self) -> Process {
        Process::spawn(&self.name, self.command)
    }

    /// Runs to the end with `input` as standard input. After `limit`, kills the program and panics.
    pub async fn run(self, input: &[u8], limit: Duration) -> Finished {
        self.run_into(Stdio::piped(), input, limit).await
    }

    /// Runs to the end while no process reads standard output, as before `| true`.
    pub async fn run_unread(self, limit: Duration) -> Finished {
        let (reader, writer) = std::io::pipe().expect("a pipe can be made");
        drop(reader);
        self.run_into(writer.into(), b"", limit).await
    }

    /// Runs to the end with a terminal as standard output; returns the printed text.
    pub async fn on_a_terminal(self, limit: Duration) -> String {
        let (screen, inner) = terminal().unwrap_or_else(|e| panic!("cannot make a terminal: {e}"));
        let reading = tokio::task::spawn_blocking(move || shown_on(screen.into()));
        self.run_into(inner.into(), b"", limit).await;
        within("the terminal's end", limit, reading).await.expect("reading does not panic")
    }

    /// Runs to the end on a terminal that receives `typed`; returns the terminal's text, and the exit code.
    pub async fn asked(self, typed: &str, limit: Duration) -> (String, Option<i32>) {
        let (screen, inner) = terminal().unwrap_or_else(|e| panic!("cannot make a terminal: {e}"));
        let mut screen = std::fs::File::from(screen);
        screen.write_all(typed.as_bytes()).expect("a terminal can be typed on");
        let mut command = tokio::process::Command::from(self.command);
        let side = || inner.try_clone().expect("a file can be opened twice");
        command.stdin(side()).stdout(side()).stderr(side()).kill_on_drop(true);
        let mut child = command.spawn().unwrap_or_else(|e| panic!("cannot start {}: {e}", self.name));
        drop((command, inner));
        let reading = tokio::task::spawn_blocking(move || shown_on(screen));
        let status = within(&format!("a run of {}", self.name), limit, child.wait()).await;
        let shown = within("the terminal's end", limit, reading).await.expect("reading does not panic");
        (shown, status.expect("a child can be waited for").code())
    }

    async fn run_into(self, stdout: Stdio, input: &[u8], limit: Duration) -> Finished {
        let Self { name, command } = self;
        let mut command = tokio::process::Command::from(command);
        command.stdin(Stdio::piped()).stdout(stdout).stderr(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().unwrap_or_else(|e| panic!("cannot start {name}: {e}"));
        let stdin = child.stdin.take().expect("the standard input was asked for");
        let stdin = stdin.into_owned_fd().expect("a pipe that nobody has read from can be turned back");
        let input = input.to_vec();
        // A program may end without reading its input: a broken pipe is not an error.
        let feeding = tokio::task::spawn_blocking(move || std::fs::File::from(stdin).write_all(&input));
        let output = within(&format!("a run of {name}"), limit, child.wait_with_output()).await;
        let output = output.unwrap_or_else(|e| panic!("cannot read what {name} printed: {e}"));
        drop(feeding);
        Finished {
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

fn terminal() -> std::io::Result<(OwnedFd, std::fs::File)> {
    let screen = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
    grantpt(&screen)?;
    unlockpt(&screen)?;
    let name = ptsname(&screen, Vec::new())?;
    let inner = std::fs::File::options().read(true).write(true).open(OsStr::from_bytes(name.as_bytes()))?;
    Ok((screen, inner))
}

fn shown_on(mut screen: std::fs::File) -> String {
    let mut printed = Vec::new();
    // Reading fails once no process has the other side open.
    let _ = screen.read_to_end(&mut printed);
    String::from_utf8_lossy(&printed).into_owned()
}

fn folder_of_binaries() -> PathBuf {
    let test = std::env::current_exe().expect("a running test has a path");
    let deps = test.parent().expect("a program is in a folder");
    if deps.ends_with("deps") {
        deps.parent().expect("deps is in a folder").to_owned()
    } else {
        deps.to_owned()
    }
}
