//! A server as a child process. The child ends with this process, and a child that did not end is found again.
//!
//! Next to each child runs a shell that waits for the end of a pipe held only by this process. If this process ends
//! without saying `done`, even by a kill, the shell ends the child. Should the shell fail as well, the next start finds
//! the child by the recorded process id and start time, and ends the child.

use crate::failure::PROGRAM_MISSING;
use delayq_service::{Fault, codes};
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

/// Time for a server to end before being killed. Redis writes out the append-only file meanwhile.
const END_WITHIN: Duration = Duration::from_secs(10);
const POLL_INTERVAL: Duration = Duration::from_millis(10);

const JANITOR: &str = r#"read -r word; [ "$word" = done ] || kill -s TERM "$1""#;

#[derive(Debug)]
pub(super) struct Child {
    pub(super) record: ChildRecord,
    ended: watch::Receiver<Option<ExitStatus>>,
    janitor: std::process::Child,
}

/// Identifies a child: process ids are used again, start times are not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ChildRecord {
    pub(super) name: String,
    pub(super) pid: i32,
    /// Start time, in clock ticks since the start of the machine.
    pub(super) started_ticks: u64,
}

// === impl Child ===

impl Child {
    /// `package` is the Debian package to name if the program is missing.
    pub(super) fn start(name: &str, package: &str, mut command: Command) -> Result<Self, Fault> {
        // A separate group: Ctrl-C on the terminal is for this process, which drains before ending the servers.
        command.stdin(Stdio::null()).process_group(0);
        let mut child =
            tokio::process::Command::from(command).spawn().map_err(|error| match error.kind() {
                std::io::ErrorKind::NotFound => Fault::new(
                    &PROGRAM_MISSING,
                    format!("{name} is not in PATH; the Debian package {package} has it"),
                ),
                _ => Fault::new(&codes::SYSTEM, format!("cannot start {name}")).because(error),
            })?;
        let id = child.id().expect("a child that was not waited for has an id");
        let pid = i32::try_from(id).expect("process ids are positive 32-bit numbers");
        let janitor = janitor(pid)?;
        let (sender, ended) = watch::channel(None);
        tokio::spawn(async move {
            let status = child.wait().await.ok();
            sender.send_replace(status);
        });
        let started_ticks = started_ticks(pid).unwrap_or(0);
        Ok(Self { record: ChildRecord { name: name.to_owned(), pid, started_ticks }, ended, janitor })
    }

    pub(super) fn ended(&self) -> Option<ExitStatus> {
        *self.ended.borrow()
    }

    pub(super) fn watch(&self) -> watch::Receiver<Option<ExitStatus>> {
        self.ended.clone()
    }

    pub(super) async fn end(mut self) {
        signal(self.record.pid, Signal::TERM);
        if timeout(END_WITHIN, self.ended.wait_for(Option::is_some)).await.is_err() {
            tracing::warn!(name = self.record.name, "did not stop in time: killing it");
            signal(self.record.pid, Signal::KILL);
            let _ = self.ended.wait_for(Option::is_some).await;
        }
        if let Some(mut pipe) = self.janitor.stdin.take() {
            // A janitor that has gone needs no message.
            let _ = pipe.write_all(b"done\n");
        }
        let _ = self.janitor.wait();
    }
}

fn janitor(pid: i32) -> Result<std::process::Child, Fault> {
    Command::new("sh")
        .args(["-c", JANITOR, "janitor", &pid.to_string()])
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| Fault::new(&codes::SYSTEM, "cannot start sh").because(error))
}

// === impl ChildRecord ===

impl ChildRecord {
    /// Returns whether this very process still runs.
    pub(super) fn is_alive(&self) -> bool {
        self.started_ticks > 0 && started_ticks(self.pid) == Some(self.started_ticks)
    }

    /// Ends a server that an earlier life of this process left.
    pub(super) async fn end_stray(&self) {
        if !self.is_alive() {
            return;
        }
        tracing::warn!(
            name = self.name,
            pid = self.pid,
            "stopping a server left running by an earlier \
             delayq up"
        );
        signal(self.pid, Signal::TERM);
        let deadline = Instant::now() + END_WITHIN;
        while self.is_alive() {
            if Instant::now() > deadline {
                signal(self.pid, Signal::KILL);
            }
            sleep(POLL_INTERVAL).await;
        }
    }
}

fn signal(pid: i32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid) {
        // A process that has ended cannot be signalled, and needs no signal.
        let _ = kill_process(pid, signal);
    }
}

/// Start time of a process; `None` if the process is missing, or has ended and is only waited for.
fn started_ticks(pid: i32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    parse_stat(&stat)
}

/// The name in parentheses may hold anything, so parsing begins behind the last parenthesis: state, 18 more, start
/// time.
fn parse_stat(stat: &str) -> Option<u64> {
    let (_, rest) = stat.rsplit_once(") ")?;
    let mut fields = rest.split(' ');
    let state = fields.next()?;
    let started = fields.nth(18)?.parse().ok()?;
    (!matches!(state, "Z" | "X")).then_some(started)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_time_is_read_past_any_name() {
        let rest = "S 1 7 7 0 -1 4 1 2 3 4 5 6 7 8 20 0 1 0 4711 9 9";
        assert_eq!(parse_stat(&format!("42 (redis-server) {rest}")), Some(4711));
        assert_eq!(parse_stat(&format!("42 (a) b) c) {rest}")), Some(4711));
        assert_eq!(parse_stat(&format!("42 (x) {}", rest.replacen('S', "Z", 1))), None);
        assert_eq!(parse_stat("nonsense"), None);
    }

    fn sleeper() -> Child {
        let mut command = Command::new("sleep");
        command.arg("600");
        Child::start("sleep", "coreutils", command).unwrap()
    }

    #[tokio::test]
    async fn a_child_ends_when_it_is_told() {
        let child = sleeper();
        let record = child.record.clone();
        assert!(record.is_alive());
        child.end().await;
        assert!(!record.is_alive());
    }

    #[tokio::test]
    async fn a_stray_is_ended_by_its_record_and_a_stranger_with_its_id_is_not() {
        let child = sleeper();
        let stranger = ChildRecord { started_ticks: child.record.started_ticks + 1, ..child.record.clone() };
        stranger.end_stray().await;
        assert!(child.record.is_alive());
        child.record.end_stray().await;
        assert!(!child.record.is_alive());
        child.end().await;
    }

    #[tokio::test]
    async fn a_child_ends_when_nobody_holds_the_pipe_any_more() {
        let mut child = sleeper();
        drop(child.janitor.stdin.take());
        let mut ended = child.watch();
        timeout(END_WITHIN, ended.wait_for(Option::is_some)).await.unwrap().unwrap();
        child.end().await;
    }

    #[tokio::test]
    async fn a_missing_program_is_named_with_its_package() {
        let fault =
            Child::start("no-such-server", "no-such-package", Command::new("no-such-server")).unwrap_err();
        assert!(fault.to_string().contains("Debian package no-such-package"), "{fault}");
        assert_eq!(fault.code().id, PROGRAM_MISSING.id);
    }
}
