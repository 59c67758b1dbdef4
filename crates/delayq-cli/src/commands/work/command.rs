//! A running command: input, tail of standard error, and end of the process group.

use rustix::process::{Pid, Signal, kill_process_group};
use std::collections::VecDeque;
use std::ffi::OsString;
use std::io::Write as _;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, ChildStderr, Command};
use tokio::task::JoinHandle;

const TAIL_BYTES: usize = 4096;
/// Time to read standard error after a command has ended: processes started by the command may hold the pipe open for
/// ever.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// A command in a separate process group. A drop before the end kills the group.
pub(super) struct RunningCommand {
    child: Child,
    tail: Tail,
    copying: Option<JoinHandle<()>>,
}

#[derive(Clone, Default)]
struct Tail(Arc<Mutex<VecDeque<u8>>>);

// === impl RunningCommand ===

impl RunningCommand {
    /// A group of its own shields the command from Ctrl-C on the terminal, because `delayq work` waits for
    /// the command.
    pub(super) fn start(
        program: &OsString,
        arguments: &[OsString],
        environment: [(&'static str, String); 5],
    ) -> std::io::Result<Self> {
        let mut command = Command::new(program);
        command
            .args(arguments)
            .envs(environment)
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        let mut child = command.spawn()?;
        let tail = Tail::default();
        let copying = child.stderr.take().map(|stderr| tokio::spawn(copy(stderr, tail.clone())));
        Ok(Self { child, tail, copying })
    }

    /// Returns the exit status and the tail of standard error.
    pub(super) async fn end(&mut self, payload: &[u8]) -> std::io::Result<(ExitStatus, String)> {
        let stdin = self.child.stdin.take();
        let feed = async {
            if let Some(mut stdin) = stdin {
                // A command that does not read the payload has not failed: the exit code decides.
                let _ = stdin.write_all(payload).await;
            }
        };
        let status = tokio::join!(feed, self.child.wait()).1?;
        if let Some(copying) = &mut self.copying {
            let _ = tokio::time::timeout(LAST_WORDS, copying).await;
        }
        Ok((status, self.tail.text()))
    }
}

impl Drop for RunningCommand {
    fn drop(&mut self) {
        // A command that was waited for has no id any more, and processes left by the command stay.
        let pid = self.child.id().and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
        if let Some(pid) = pid {
            let _ = kill_process_group(pid, Signal::KILL);
        }
    }
}

// === impl Tail ===

impl Tail {
    fn add(&self, bytes: &[u8]) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend(bytes);
        let surplus = kept.len().saturating_sub(TAIL_BYTES);
        kept.drain(..surplus);
    }

    /// If bytes were cut off, from the beginning of a line.
    fn text(&self) -> String {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = &*kept.make_contiguous();
        let whole = match bytes.iter().position(|&byte| byte == b'\n') {
            Some(end) if bytes.len() == TAIL_BYTES && end + 1 < bytes.len() => &bytes[end + 1..],
            _ => bytes,
        };
        String::from_utf8_lossy(whole).trim().to_owned()
    }
}

async fn copy(mut stderr: ChildStderr, tail: Tail) {
    let mut bytes = [0; 4096];
    while let Ok(read @ 1..) = stderr.read(&mut bytes).await {
        tail.add(&bytes[..read]);
        let _ = std::io::stderr().write_all(&bytes[..read]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_kept_whole() {
        let tail = Tail::default();
        assert_eq!(tail.text(), "");
        tail.add(b"one\ntwo\n");
        assert_eq!(tail.text(), "one\ntwo");
        for number in 0..2000 {
            tail.add(format!("line {number}\n").as_bytes());
        }
        let text = tail.text();
        assert!(
            text.starts_with("line 1") && text.ends_with("\nline 1999") && text.len() <= TAIL_BYTES,
            "{text}"
        );
    }
}
