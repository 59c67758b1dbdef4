//! `delayq up` as a child process: started, watched and stopped as by a user.

use delayq::Client;
use delayq_cli::deployment::CliConfig;
use delayq_cli::failure::{PROGRAM_MISSING, UNREACHABLE, file};
use delayq_service::config::{Environment, Source, load};
use delayq_service::deployment::client;
use delayq_service::{Fault, codes};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{DirBuilder, File, TryLockError};
use std::io::{Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::{sleep, timeout};

/// Time for an earlier `delayq up`, killed with its rehearsal, to leave the folder.
const LEAVES_WITHIN: Duration = Duration::from_secs(10);
const STOPS_WITHIN: Duration = Duration::from_secs(60);
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// The kernel kills the child with this process.
pub(crate) struct Up {
    child: Child,
    config: PathBuf,
    log: PathBuf,
    /// Kept open so that the child can print.
    _output: Lines<BufReader<ChildStdout>>,
}

// === impl Up ===

impl Up {
    /// Waits for readiness; `topics` are forwarded into `delivered.ndjson`.
    pub(crate) async fn start(
        data: &Path,
        topics: &[String],
        more: impl FnOnce(&mut Command),
    ) -> Result<Self, Fault> {
        let logs = data.join("logs");
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&logs);
        made.map_err(|error| file(&logs, "make the folder", error))?;
        free(data).await;
        let path = logs.join("up.log");
        let log = File::options().create(true).append(true).open(&path);
        let log = log.map_err(|error| file(&path, "write", error))?;
        let begin = log.metadata().map_or(0, |found| found.len());

        // The kernel kills the child when this thread ends, even by a kill.
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL"]).arg(program()).args(["up", "--json", "--data"]).arg(data);
        for topic in topics {
            command.args(["--forward", &format!("{topic}=file")]);
        }
        more(&mut command);
        // A separate process group: Ctrl-C on the terminal reaches only the rehearsal, which stops the child.
        command.process_group(0).env_remove("DELAYQ_CONFIG").stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::from(log));
        let mut child = command.spawn().map_err(|error| {
            Fault::new(&PROGRAM_MISSING, "cannot run setpriv, of the Debian package util-linux")
                .because(error)
        })?;
        let mut output = BufReader::new(child.stdout.take().expect("standard output is a pipe")).lines();
        match output.next_line().await {
            Ok(Some(_)) => Ok(Self { child, config: data.join("delayq.toml"), log: path, _output: output }),
            _ => {
                let status =
                    child.wait().await.map_or_else(|error| error.to_string(), |status| status.to_string());
                let words = text_from(&path, begin);
                Err(Fault::new(&UNREACHABLE, format!("delayq up did not start ({status}):\n{words}")))
            }
        }
    }

    pub(crate) fn client(&self) -> Result<Client, Fault> {
        let config = load::<CliConfig>(&Source::File(self.config.clone()), &Environment::empty())?.config;
        client(&config.deployment, &config.redis)
    }

    /// Cancel safe.
    pub(crate) async fn ended(&mut self) -> Fault {
        let how = self.child.wait().await.map_or_else(|error| error.to_string(), |status| status.to_string());
        Fault::new(&UNREACHABLE, format!("delayq up ended ({how}); see {}", self.log.display()))
    }

    /// Like Ctrl-C. Fails without a complete drain.
    pub(crate) async fn stop(mut self) -> Result<(), Fault> {
        if let Some(pid) = self.child.id().and_then(|id| Pid::from_raw(id.try_into().ok()?)) {
            // A finished process cannot be signalled: its exit code is read below.
            let _ = kill_process(pid, Signal::INT);
        }
        match timeout(STOPS_WITHIN, self.child.wait()).await {
            Ok(Ok(status)) if status.success() => Ok(()),
            Ok(_) => Err(self.ended().await),
            Err(_) => {
                let _ = self.child.kill().await;
                Err(Fault::new(&codes::SYSTEM, format!("delayq up did not stop; see {}", self.log.display())))
            }
        }
    }
}

/// `delayq up` refuses a lock still held, by name.
async fn free(data: &Path) {
    let path = data.join("lock");
    let Ok(lock) = File::open(&path) else { return };
    let free = async {
        while matches!(lock.try_lock(), Err(TryLockError::WouldBlock)) {
            sleep(POLL_INTERVAL).await;
        }
    };
    let _ = timeout(LEAVES_WITHIN, free).await;
}

/// `delayq` from this program's folder, else from the PATH.
fn program() -> PathBuf {
    let this = std::env::current_exe().ok();
    let beside = this.and_then(|this| Some(this.parent()?.join("delayq"))).filter(|path| path.is_file());
    beside.unwrap_or_else(|| "delayq".into())
}

fn text_from(path: &Path, begin: u64) -> String {
    let mut text = String::new();
    let read = File::open(path).and_then(|mut log| {
        log.seek(SeekFrom::Start(begin))?;
        log.read_to_string(&mut text)
    });
    match read {
        Ok(_) => text.trim_end().to_owned(),
        Err(error) => format!("{}: {error}", path.display()),
    }
}
