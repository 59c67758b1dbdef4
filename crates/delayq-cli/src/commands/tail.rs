//! `delayq tail`: follow deliveries in the file that a forwarder writes.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use delayq_service::Fault;
use tokio::io::{AsyncReadExt as _, AsyncSeekExt as _, SeekFrom};

use crate::failure::file;
use crate::output::say;

/// How often the file is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// Follow deliveries in the file that a forwarder writes, until Ctrl-C
///
/// Prints every line that a file sink appends: a delivery with its id, its times and its payload. Where there is no such
/// file, `delayq count TOPIC --follow` tells how many messages became ready, were delivered and so on.
#[derive(Debug, Args)]
pub struct Tail {
    /// The file that a forwarder appends deliveries to, such as delivered.ndjson of delayq up
    #[arg(long)]
    file: PathBuf,
    /// Begin at its start, not at its end
    #[arg(long)]
    from_start: bool,
}

// === impl Tail ===

impl Tail {
    /// Follows until Ctrl-C.
    ///
    /// # Errors
    /// The file cannot be read.
    pub async fn run(self) -> Result<(), Fault> {
        tokio::select! {
            // Listened for before the first line is printed: whoever has seen one may end it.
            biased;
            _ = tokio::signal::ctrl_c() => Ok(()),
            followed = follow_file(&self.file, self.from_start) => followed,
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
