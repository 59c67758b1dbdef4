//! `delayq tail`: follow deliveries without taking any away.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use delayq_core::{Numbers, Topic};
use delayq_service::Fault;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncSeekExt as _, SeekFrom};

use crate::deployment::{Context, Global};
use crate::failure::{file, of_core};
use crate::output::{Output, say};

/// How often a file or the counters are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// Follow deliveries until Ctrl-C, without taking any away
///
/// With --file, every line that a forwarder's file sink appends. With a topic, a line whenever its numbers move: how
/// many became ready, were delivered, cancelled, expired or died since the last line.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("what").required(true).args(["topic", "file"]))]
pub struct Tail {
    /// The topic whose numbers to follow
    topic: Option<Topic>,
    /// The file that a forwarder appends deliveries to, such as delivered.ndjson of delayq up
    #[arg(long)]
    file: Option<PathBuf>,
    /// With --file: begin at its start, not at its end
    #[arg(long, requires = "file")]
    from_start: bool,
}

// === impl Tail ===

impl Tail {
    /// Follows until Ctrl-C.
    ///
    /// # Errors
    /// The file or Redis cannot be used.
    pub async fn run(self, global: &Global) -> Result<(), Fault> {
        let follow = async {
            match (self.file, self.topic) {
                (Some(path), _) => follow_file(&path, self.from_start).await,
                (None, Some(topic)) => follow_topic(&global.context()?, &topic).await,
                (None, None) => Ok(()),
            }
        };
        tokio::select! {
            followed = follow => followed,
            _ = tokio::signal::ctrl_c() => Ok(()),
        }
    }
}

async fn follow_file(path: &Path, from_start: bool) -> Result<(), Fault> {
    let cannot = |error| file(path, "read", error);
    let mut from = tokio::fs::File::open(path).await.map_err(cannot)?;
    if !from_start {
        from.seek(SeekFrom::End(0)).await.map_err(cannot)?;
    }
    let mut unfinished = Vec::new();
    loop {
        let read = from.read_buf(&mut unfinished).await.map_err(cannot)?;
        while let Some(end) = unfinished.iter().position(|&byte| byte == b'\n') {
            let line: Vec<u8> = unfinished.drain(..=end).collect();
            say(String::from_utf8_lossy(&line).trim_end())?;
        }
        if read == 0 {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}

async fn follow_topic(context: &Context, topic: &Topic) -> Result<(), Fault> {
    let admin = context.admin();
    let mut last = admin.count(topic).await.map_err(of_core)?;
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        let next = admin.count(topic).await.map_err(of_core)?;
        if moved(&last) != moved(&next) {
            line(context.output, topic, &last, &next)?;
        }
        last = next;
    }
}

const fn moved(numbers: &Numbers) -> [u64; 6] {
    [numbers.accepted, numbers.delivered, numbers.cancelled, numbers.expired, numbers.buried, numbers.ready]
}

fn line(output: Output, topic: &Topic, last: &Numbers, next: &Numbers) -> Result<(), Fault> {
    let names = ["accepted", "delivered", "cancelled", "expired", "buried"];
    let changes: Vec<(&str, u64)> = names
        .into_iter()
        .zip(moved(last).into_iter().zip(moved(next)))
        .map(|(name, (last, next))| (name, next.saturating_sub(last)))
        .filter(|(_, change)| *change > 0)
        .collect();
    let value = json!({
        "topic": topic, "delayed": next.delayed, "ready": next.ready, "leased": next.leased,
        "changes": changes.iter().copied().collect::<std::collections::BTreeMap<_, _>>(),
    });
    output.line(&value, || {
        let changes: Vec<String> = changes.iter().map(|(name, change)| format!("+{change} {name}")).collect();
        let Numbers { delayed, ready, leased, .. } = next;
        format!("{topic}: {delayed} delayed, {ready} ready, {leased} leased  {}", changes.join(", "))
    })
}
