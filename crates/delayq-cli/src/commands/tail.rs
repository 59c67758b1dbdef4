//! `delayq tail`: follow deliveries in the file that a forwarder writes.

use crate::failure::file;
use crate::output::{say, time};
use clap::Args;
use delayq::UnixMillis;
use delayq_service::Fault;
use serde::Deserialize;
use std::path::PathBuf;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncSeekExt as _, SeekFrom};

const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// Follow deliveries in a forwarder's file, until Ctrl-C
///
/// Prints every delivery that a file sink appends: when it was due and how late it became ready, its topic, id, group and
/// attempt, and the payload. With -o json, prints each line as the sink wrote it. Without such a file, `delayq count TOPIC
/// --follow` shows how many messages became ready, were delivered and so on.
#[derive(Debug, Args)]
pub struct Tail {
    /// The file that a forwarder appends deliveries to, such as delivered.ndjson of delayq up --forward
    #[arg(long)]
    file: PathBuf,
    /// Start at the beginning of the file instead of its end
    #[arg(long)]
    from_start: bool,
}

#[derive(Deserialize)]
struct Delivered {
    id: String,
    topic: String,
    group: Option<String>,
    due: UnixMillis,
    late_ms: f64,
    attempt: u16,
    payload: Option<String>,
}

// === impl Tail ===

impl Tail {
    /// Follows until Ctrl-C.
    ///
    /// # Errors
    /// The file cannot be read.
    pub async fn run(self, json: bool) -> Result<(), Fault> {
        tokio::select! {
            // Ctrl-C is caught before the first line is printed, so that a reader of the line may end the command.
            biased;
            _ = tokio::signal::ctrl_c() => Ok(()),
            followed = self.follow(json) => followed,
        }
    }

    async fn follow(&self, json: bool) -> Result<(), Fault> {
        let cannot = |error| file(&self.file, "read", error);
        let mut from = tokio::fs::File::open(&self.file).await.map_err(cannot)?;
        if !self.from_start {
            from.seek(SeekFrom::End(0)).await.map_err(cannot)?;
        }
        let mut unfinished = Vec::new();
        loop {
            let read = from.read_buf(&mut unfinished).await.map_err(cannot)?;
            while let Some(end) = unfinished.iter().position(|&byte| byte == b'\n') {
                let line: Vec<u8> = unfinished.drain(..=end).collect();
                let line = String::from_utf8_lossy(&line);
                match serde_json::from_str::<Delivered>(&line) {
                    Ok(delivered) if !json => say(&delivered.text())?,
                    _ => say(line.trim_end())?,
                }
            }
            if read == 0 {
                tokio::time::sleep(POLL_INTERVAL).await;
            }
        }
    }
}

// === impl Delivered ===

impl Delivered {
    fn text(&self) -> String {
        let Self { id, topic, group, due, late_ms, attempt, payload } = self;
        let group = group.as_ref().map(|group| format!(" in group {group}")).unwrap_or_default();
        let attempt = if *attempt > 1 { format!(" (attempt {attempt})") } else { String::new() };
        let payload = payload.as_deref().unwrap_or("(not text; -o json shows it)");
        format!("{} +{late_ms:.1}ms  {topic} {id}{group}{attempt}  {payload}", time(*due))
    }
}
