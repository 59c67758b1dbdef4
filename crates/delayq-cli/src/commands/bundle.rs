//! `delayq bundle`: diagnostics for remote support, in a single file without secrets.

use crate::commands::doctor::examine;
use crate::deployment::{Context, Global};
use crate::failure::{file, usage};
use crate::look::finish;
use crate::output::counted;
use archive::{Archive, Packed};
use clap::Args;
use configuration::Configuration;
use delayq_look::{Look, Want, endpoints};
use delayq_service::Fault;
use delayq_service::config::HostPort;
use futures_util::StreamExt as _;
use futures_util::future::join_all;
use futures_util::stream::iter;
use jiff::Timestamp;
use redact::Redactor;
use serde_json::{Value, json};
use std::fs::{OpenOptions, remove_file, rename};
use std::future::Future;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::time::timeout;

mod archive;
mod configuration;
mod host;
mod redact;
mod stored;

/// Maximum time for each part.
const DEADLINE: Duration = Duration::from_secs(20);

const AT_A_TIME: usize = 16;
/// Files packed for each process, with the path of each on the admin endpoint.
const PATHS: [(&str, &str); 3] =
    [("version.json", "/version"), ("ready.json", "/readyz"), ("metrics.txt", "/metrics")];

/// Pack diagnostics for support into one .tar.gz, without secrets and payloads
///
/// Contains the versions of delayq, Redis and etcd; the configuration in force; metrics and readiness of every process whose
/// admin endpoint answers; clocks; plan, owners and shards; topics with policies and counts; the results of doctor and
/// audit; this host; and logs: those given, or else the journal of delayq's units. If a part is unavailable, its file says
/// why.
///
/// The configuration's passwords, tokens and keys are removed from every file, and so is anything that looks like one.
/// Messages are not read. The names of topics, hosts and processes are included.
#[derive(Debug, Args)]
pub struct Bundle {
    /// The file to write. Default delayq-bundle-TIME.tar.gz in the current folder
    file: Option<PathBuf>,
    /// The admin endpoint of a process that is not registered in etcd; may be repeated
    #[arg(long = "admin", value_name = "HOST:PORT")]
    endpoints: Vec<HostPort>,
    /// A log to pack (its last 8 MiB); may be repeated. Default: the journal of the units delayq-*
    #[arg(long = "log", value_name = "FILE")]
    logs: Vec<PathBuf>,
    /// Replace the file
    #[arg(long)]
    overwrite: bool,
}

// === impl Bundle ===

impl Bundle {
    /// Writes the bundle and prints a list of the packed files.
    ///
    /// # Errors
    /// The file exists already or cannot be written; the configuration cannot be read at all.
    pub async fn run(self, global: &Global) -> Result<(), Fault> {
        let context = &global.context()?;
        let now = Timestamp::now();
        let target = self.file.clone().unwrap_or_else(|| default_name(now));
        if target.symlink_metadata().is_ok() && !self.overwrite {
            return Err(usage(format!("{} exists: replace it with --overwrite", target.display())));
        }
        // The look does more work than any other part: every topic is counted.
        let look = bounded(async { Ok(Look::take(&context.deployment, Want::JUDGED).await) }).await;
        let (bytes, packed) = self.pack(global, context, now, look.as_ref()).await.finish();
        write(&target, &bytes, self.overwrite).map_err(|error| file(&target, "write", error))?;
        let value = json!({ "file": target.display().to_string(), "bytes": bytes.len(), "packed": packed });
        context.output.print(&value, || {
            let mut rows = context.output.rows(&["file", ">bytes", "why it is missing"]);
            for Packed { file, bytes, why } in &packed {
                rows.judged(
                    why.is_none(),
                    [file.clone(), bytes.to_string(), why.clone().unwrap_or_default()],
                );
            }
            let files = counted(packed.len() as u64, "file");
            format!("{}\n\n{}: {files}, {} bytes", rows.text(), target.display(), bytes.len())
        })?;
        // The files name all other gaps.
        look.ok().filter(Look::is_partial).map_or(Ok(()), |look| finish(&look, Ok(())))
    }

    async fn pack(
        &self,
        global: &Global,
        context: &Context,
        now: Timestamp,
        look: Result<&Look, &String>,
    ) -> Archive {
        let Configuration { shown, sources, secrets, more } = Configuration::of(global);
        let is_known = shown.is_ok();
        let mut archive = Archive::new(Redactor::new(&secrets, more), now.as_second().unsigned_abs());
        let version = env!("CARGO_PKG_VERSION");
        archive.json(
            "bundle.json",
            Ok(json!({ "at": now.to_string(), "delayq": version, "configuration": sources })),
        );
        archive.text("configuration.toml", shown);
        let of = |part: &dyn Fn(&Look) -> Result<Value, String>| part(look.map_err(Clone::clone)?);
        let part = &look.map_or_else(|_| context.clone(), |look| context.limited_to(&look.part));
        let doctor = async { Ok(json!(examine(global, context, look.map_err(Clone::clone)?).await)) };
        for (file, value) in [
            ("redis.json", of(&|look| stored::redis(context, look))),
            ("etcd.json", of(&stored::etcd)),
            ("timers.json", of(&stored::fleet)),
            ("shards.json", of(&stored::shards)),
            ("topics.json", of(&stored::topics)),
            ("clocks.json", bounded(stored::clocks(part)).await),
            ("doctor.json", bounded(doctor).await),
            ("audit.json", bounded(stored::books(part)).await),
        ] {
            archive.json(file, value);
        }
        for (file, path) in host::FILES {
            archive.text(file, host::file(path));
        }
        if is_known {
            self.processes(context, &mut archive).await;
            self.logs(&mut archive).await;
        } else {
            let why = "left out: the configuration has faults, so its secrets cannot be redacted";
            archive.text("processes", Err(why.to_owned()));
            archive.text("logs", Err(why.to_owned()));
        }
        archive
    }

    async fn processes(&self, context: &Context, archive: &mut Archive) {
        let (endpoints, missing) = endpoints(&context.deployment, context.endpoints(&self.endpoints)).await;
        if let Some(why) = missing {
            archive.text("processes/registered", Err(why));
        }
        let answers = endpoints.into_iter().map(async |endpoint| {
            let answers = join_all(PATHS.map(|(_, path)| endpoint.get(path))).await;
            (endpoint.name, answers)
        });
        let mut answers = iter(answers).buffered(AT_A_TIME);
        while let Some((name, answers)) = answers.next().await {
            for ((file, _), answer) in PATHS.iter().zip(answers) {
                archive.text(&format!("processes/{name}/{file}"), answer);
            }
        }
    }

    async fn logs(&self, archive: &mut Archive) {
        if self.logs.is_empty() {
            return archive.text("logs/journal.txt", host::journal().await);
        }
        for (number, path) in self.logs.iter().enumerate() {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            archive.text(&format!("logs/{number}-{name}"), host::log(path));
        }
    }
}

fn default_name(now: Timestamp) -> PathBuf {
    PathBuf::from(format!("delayq-bundle-{}.tar.gz", now.strftime("%Y%m%dT%H%M%SZ")))
}

/// Only the owner can read the file, because names and addresses are not for every user of the host. The file
/// is written as a whole or not at all.
fn write(target: &Path, bytes: &[u8], overwrite: bool) -> std::io::Result<()> {
    let mut fresh = target.as_os_str().to_owned();
    if overwrite {
        fresh.push(format!(".{}.new", std::process::id()));
    }
    let fresh = PathBuf::from(fresh);
    let mut out = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&fresh)?;
    let written = out.write_all(bytes).and_then(|()| out.sync_all());
    let written = written.and_then(|()| if overwrite { rename(&fresh, target) } else { Ok(()) });
    if written.is_err() {
        // A partial file would be mistaken for a bundle.
        let _ = remove_file(&fresh);
    }
    written
}

async fn bounded<T>(part: impl Future<Output = Result<T, String>>) -> Result<T, String> {
    timeout(DEADLINE, part).await.unwrap_or_else(|_| Err(format!("not within {DEADLINE:?}")))
}
