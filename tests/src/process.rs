//! A child process of a test: lines, signals, end.

use crate::folder::{forget_group, mark_group};
use rustix::process::{Pid, Resource, Rlimit, kill_process, kill_process_group, prlimit};
use std::fmt::{self, Write as _};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;
use tokio::sync::watch;

pub use rustix::process::Signal;

const TAIL: usize = 40;
/// Maximum growth of a program from the middle of a run to its end: by a fifth, or by this much.
const MORE_KIB: u64 = 8 * 1024;

/// The output of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Out,
    /// Standard error.
    Err,
}

/// A printed line, without its line end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// The output.
    pub stream: Stream,
    /// The text; bytes that are not UTF-8 are replaced.
    pub text: String,
}

/// A running (or ended) child in its own process group.
///
/// Dropping the process kills the whole group with SIGKILL and waits for the child.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    lines: Arc<Lines>,
}

#[derive(Debug)]
struct Lines {
    kept: Mutex<Vec<Line>>,
    count: watch::Sender<usize>,
    open: watch::Sender<usize>,
}

// === impl Process ===

impl Process {
    /// Starts `command` with both outputs captured and empty standard input; failures show `name`.
    #[must_use]
    pub fn spawn(name: &str, command: Command) -> Self {
        Self::spawn_with(name, command, Stdio::null())
    }

    /// As [`Self::spawn`], with a pipe as standard input.
    #[must_use]
    pub fn spawn_fed(name: &str, command: Command) -> (Self, ChildStdin) {
        let mut process = Self::spawn_with(name, command, Stdio::piped());
        let input = process.child.stdin.take().expect("it is piped");
        (process, input)
    }

    fn spawn_with(name: &str, mut command: Command, input: Stdio) -> Self {
        command.stdin(input).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let mut child = command
            .spawn()
            .unwrap_or_else(|e| panic!("cannot start {name} ({}): {e}", command.get_program().display()));
        mark_group(child.id());
        let lines = Arc::new(Lines {
            kept: Mutex::default(),
            count: watch::Sender::new(0),
            open: watch::Sender::new(0),
        });
        if let Some(out) = child.stdout.take() {
            collect(&lines, Stream::Out, out);
        }
        if let Some(err) = child.stderr.take() {
            collect(&lines, Stream::Err, err);
        }
        Self { name: name.to_owned(), child, lines }
    }

    /// The process id, which is also the group's.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The resident set, in KiB; `None` after the end.
    #[must_use]
    pub fn resident_kib(&self) -> Option<u64> {
        self.status_kib("VmRSS:")
    }

    /// The most resident memory that the process ever had, in KiB; `None` after its end.
    #[must_use]
    pub fn most_kib(&self) -> Option<u64> {
        self.status_kib("VmHWM:")
    }

    fn status_kib(&self, name: &str) -> Option<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.id())).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse().ok()
    }

    /// Number of open files, sockets included; 0 after the end.
    #[must_use]
    pub fn open_files(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.id())).map_or(0, Iterator::count)
    }

    /// Sends a signal to the process only, unless ended.
    pub fn signal(&self, signal: Signal) {
        match kill_process(self.pid(), signal) {
            Ok(()) | Err(rustix::io::Errno::SRCH) => {}
            Err(e) => panic!("cannot send {signal:?} to {}: {e}", self.name),
        }
    }

    /// Sends a signal to the process and its whole group: for a program behind a shell script.
    pub fn signal_all(&self, signal: Signal) {
        match kill_process_group(self.pid(), signal) {
            Ok(()) | Err(rustix::io::Errno::SRCH) => {}
            Err(e) => panic!("cannot send {signal:?} to the group of {}: {e}", self.name),
        }
    }

    /// Limits open files, sockets included, to this many.
    pub fn limit_files(&self, most: u64) {
        let limit = Rlimit { current: Some(most), maximum: Some(most) };
        prlimit(Some(self.pid()), Resource::Nofile, limit)
            .unwrap_or_else(|e| panic!("cannot limit the files of {}: {e}", self.name));
    }

    /// The exit status, or `None` while running.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().unwrap_or_else(|e| panic!("cannot ask for the end of {}: {e}", self.name))
    }

    /// Waits until the process has ended and all its output has been read; a failure shows the last lines.
    ///
    /// Remaining children may hold the outputs open: the wait then lasts the whole `limit`.
    pub async fn wait_end(&mut self, limit: Duration) -> ExitStatus {
        let ending = async {
            loop {
                if let Some(status) = self.ended() {
                    return status;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let Ok(status) = tokio::time::timeout(limit, ending).await else {
            panic!("{} still runs after {limit:?}; it printed:\n{}", self.name, self.tail())
        };
        // The readers are separate threads and may be behind.
        let _ = tokio::time::timeout(limit, self.lines.closed()).await;
        status
    }

    /// Sends `signal` and waits for the end.
    pub async fn end_by(&mut self, signal: Signal, limit: Duration) -> ExitStatus {
        self.signal(signal);
        self.wait_end(limit).await
    }

    /// Sends a signal to the process and expects a successful end; a failure shows the last lines.
    pub async fn ends_well_by(&mut self, signal: Signal, limit: Duration) {
        let status = self.end_by(signal, limit).await;
        assert!(status.success(), "{} ended with {status}; it printed:\n{}", self.name, self.tail());
    }

    /// Every line so far, in the order of arrival, which is only approximate between the two outputs.
    #[must_use]
    pub fn lines(&self) -> Vec<Line> {
        self.lines.lock().clone()
    }

    /// The lines after `mark`.
    #[must_use]
    pub fn lines_from(&self, mark: usize) -> Vec<Line> {
        self.lines.lock()[mark..].to_vec()
    }

    /// The text of an output so far.
    #[must_use]
    pub fn text(&self, stream: Stream) -> String {
        self.lines.lock().iter().filter(|l| l.stream == stream).fold(String::new(), |mut all, line| {
            let _ = writeln!(all, "{}", line.text);
            all
        })
    }

    /// Number of lines so far, as the start of a later [`Self::wait_for_line_from`].
    #[must_use]
    pub fn mark(&self) -> usize {
        self.lines.lock().len()
    }

    /// Waits for a line, already printed or later, that contains `needle`, and returns the line.
    pub async fn wait_for_line(&mut self, needle: &str, limit: Duration) -> String {
        self.wait_for_line_from(0, needle, limit).await
    }

    /// As [`Self::wait_for_line`], but only for lines after `mark`.
    pub async fn wait_for_line_from(&mut self, mark: usize, needle: &str, limit: Duration) -> String {
        let mut count = self.lines.count.subscribe();
        let lines = &self.lines;
        let seeking = async {
            let mut seen = mark;
            loop {
                {
                    let kept = lines.lock();
                    if let Some(hit) = kept.iter().skip(seen).find(|l| l.text.contains(needle)) {
                        return Some(hit.text.clone());
                    }
                    seen = kept.len().max(mark);
                }
                tokio::select! {
                    _ = count.wait_for(|n| *n > seen) => {}
                    // Both outputs are closed: no further line can come.
                    () = lines.closed() => if lines.lock().len() <= seen { return None },
                }
            }
        };
        match tokio::time::timeout(limit, seeking).await {
            Ok(Some(line)) => line,
            Ok(None) => {
                panic!("{} ended without printing {needle:?}; it printed:\n{}", self.name, self.tail())
            }
            Err(_) => {
                panic!("waited {limit:?} for {} to print {needle:?}; it printed:\n{}", self.name, self.tail())
            }
        }
    }

    /// The last lines, for a failure's message.
    #[must_use]
    pub fn tail(&self) -> String {
        let kept = self.lines.lock();
        let from = kept.len().saturating_sub(TAIL);
        kept[from..].iter().map(|l| format!("  {}\n", l.text)).collect()
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The group may contain grandchildren even after the child has ended.
        let _ = kill_process_group(self.pid(), Signal::KILL);
        let _ = self.child.wait();
        forget_group(self.child.id());
    }
}

// === impl Lines ===

impl Lines {
    fn lock(&self) -> MutexGuard<'_, Vec<Line>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, line: Line) {
        let mut kept = self.lock();
        kept.push(line);
        self.count.send_replace(kept.len());
    }

    /// Ends when both readers have seen the end of their output.
    async fn closed(&self) {
        let _ = self.open.subscribe().wait_for(|open| *open == 0).await;
    }
}

fn collect(lines: &Arc<Lines>, stream: Stream, from: impl Read + Send + 'static) {
    let lines = Arc::clone(lines);
    lines.open.send_modify(|open| *open += 1);
    thread::spawn(move || {
        let mut from = BufReader::new(from);
        let mut bytes = Vec::new();
        while matches!(from.read_until(b'\n', &mut bytes), Ok(n) if n > 0) {
            while matches!(bytes.last(), Some(b'\n' | b'\r')) {
                bytes.pop();
            }
            lines.push(Line { stream, text: String::from_utf8_lossy(&bytes).into_owned() });
            bytes.clear();
        }
        lines.open.send_modify(|open| *open -= 1);
    });
}

/// Compares the sizes of programs in the middle of a run and at its end, and panics if one has grown.
pub fn assert_none_grew<N: fmt::Display>(run: &str, middle: &[(N, u64)], last: &[(N, u64)]) {
    for ((name, before), (_, after)) in middle.iter().zip(last) {
        eprintln!("{run}: {name}: {before} KiB in the middle, {after} KiB at the end");
        let most = before + (before / 5).max(MORE_KIB);
        assert!(*after <= most, "{name} grew from {before} KiB to {after} KiB");
    }
}

/// True if a process, perhaps another's child, has ended: a zombie (state Z) only awaits its parent.
pub(crate) fn has_ended(id: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    stat.is_empty() || stat.contains(") Z ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deadline::{SHORT, wait_for};

    fn shell(script: &str) -> Process {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Process::spawn("a shell", command)
    }

    #[tokio::test]
    async fn a_line_is_found_before_and_after_it_is_printed() {
        let mut process = shell("echo one; echo two >&2; sleep 0.05; echo three");
        assert_eq!(process.wait_for_line("three", SHORT).await, "three");
        assert_eq!(process.wait_for_line("wo", SHORT).await, "two");
        assert!(process.wait_end(SHORT).await.success());
        assert_eq!(process.text(Stream::Err), "two\n");
    }

    #[tokio::test]
    #[should_panic(expected = "ended without printing \"never\"")]
    async fn a_line_that_cannot_come_any_more_is_not_waited_for() {
        shell("echo one").wait_for_line("never", Duration::from_secs(3600)).await;
    }

    #[tokio::test]
    #[should_panic(expected = "to print \"never\"; it printed:\n  one")]
    async fn a_line_that_does_not_come_is_named() {
        let mut process = shell("echo one; exec sleep 600");
        process.wait_for_line("one", SHORT).await;
        process.wait_for_line("never", Duration::from_millis(50)).await;
    }

    #[tokio::test]
    async fn grandchildren_end_with_the_process() {
        let mut process = shell("sleep 600 & echo $!; exec sleep 600");
        let grandchild = process.wait_for_line("", SHORT).await;
        drop(process);
        wait_for("the grandchild's end", SHORT, || std::future::ready(has_ended(&grandchild).then_some(())))
            .await;
    }
}
