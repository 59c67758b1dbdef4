//! This host: system facts, limits and logs.

use delayq_service::Fault;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;
use tokio::process::Command;
use tokio::time::timeout;

pub(super) const FILES: [(&str, &str); 8] = [
    ("host/kernel.txt", "/proc/version"),
    ("host/system.txt", "/etc/os-release"),
    ("host/cpu.txt", "/proc/cpuinfo"),
    ("host/memory.txt", "/proc/meminfo"),
    ("host/load.txt", "/proc/loadavg"),
    ("host/limits.txt", "/proc/self/limits"),
    ("host/cgroup-cpu.txt", "/sys/fs/cgroup/cpu.max"),
    ("host/cgroup-memory.txt", "/sys/fs/cgroup/memory.max"),
];

const LOG_BYTES: u64 = 8 << 20;
const JOURNAL_LINES: &str = "20000";
const JOURNAL_DEADLINE: Duration = Duration::from_secs(10);

pub(super) fn file(path: &str) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))
}

/// The end of a log, from the beginning of a line.
pub(super) fn log(path: &Path) -> Result<String, String> {
    let read = || -> std::io::Result<(Vec<u8>, bool)> {
        let mut file = std::fs::File::open(path)?;
        let length = file.metadata()?.len();
        let skipped = length.saturating_sub(LOG_BYTES);
        file.seek(SeekFrom::Start(skipped))?;
        let mut bytes = Vec::new();
        file.take(LOG_BYTES).read_to_end(&mut bytes)?;
        Ok((bytes, skipped > 0))
    };
    let (bytes, is_cut) = read().map_err(|error| format!("{}: {error}", path.display()))?;
    let text = String::from_utf8_lossy(&bytes);
    Ok(match text.split_once('\n') {
        Some((_, rest)) if is_cut => format!("(the end of a longer file)\n{rest}"),
        _ => text.into_owned(),
    })
}

pub(super) async fn journal() -> Result<String, String> {
    let mut journalctl = Command::new("journalctl");
    journalctl.args(["--unit", "delayq-*", "--lines", JOURNAL_LINES, "--no-pager", "--output", "short-iso"]);
    journalctl.stdin(Stdio::null()).kill_on_drop(true);
    let output = match timeout(JOURNAL_DEADLINE, journalctl.output()).await {
        Ok(output) => output.map_err(|error| format!("journalctl: {error}"))?,
        Err(_) => return Err(format!("journalctl did not end within {JOURNAL_DEADLINE:?}")),
    };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    match output.status.success() && !text.trim().is_empty() {
        true => Ok(text),
        false => {
            Err(format!("no entry; journalctl said: {}", String::from_utf8_lossy(&output.stderr).trim()))
        }
    }
}

#[allow(clippy::needless_pass_by_value, reason = "made for map_err")]
pub(super) fn why(fault: Fault) -> String {
    fault.to_string()
}
