//! What a Redis says of itself.

use crate::bare::{Answer, Bare};
use crate::error::BenchError;
use std::ops::SubAssign;

/// One section of INFO.
pub(crate) async fn section(bare: &mut Bare, name: &str) -> Result<String, BenchError> {
    match bare.call(&["INFO", name]).await? {
        Answer::Text(text) => Ok(String::from_utf8_lossy(&text).into_owned()),
        _ => Err(BenchError::Wrong("INFO answered no text".to_owned())),
    }
}

/// What a Redis has used so far.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Usage {
    /// Processor time of the thread that carries out commands, in seconds.
    pub(crate) cpu: f64,
    /// Calls of scripts.
    pub(crate) calls: f64,
    /// Seconds in scripts.
    pub(crate) scripts: f64,
    /// How often it read from a connection.
    pub(crate) reads: f64,
}

// === impl Usage ===

impl SubAssign for Usage {
    fn sub_assign(&mut self, before: Self) {
        self.cpu -= before.cpu;
        self.calls -= before.calls;
        self.scripts -= before.scripts;
        self.reads -= before.reads;
    }
}

/// What it has used so far.
pub(crate) async fn usage(bare: &mut Bare) -> Result<Usage, BenchError> {
    let Answer::Text(text) = bare.call(&["INFO", "cpu", "stats", "commandstats"]).await? else {
        return Err(BenchError::Wrong("INFO answered no text".to_owned()));
    };
    let text = String::from_utf8_lossy(&text);
    Ok(Usage {
        cpu: number(&text, "used_cpu_user_main_thread:", "") + number(&text, "used_cpu_sys_main_thread:", ""),
        calls: number(&text, "cmdstat_evalsha:", "calls="),
        scripts: number(&text, "cmdstat_evalsha:", "usec=") / 1e6,
        reads: number(&text, "total_reads_processed:", ""),
    })
}

/// A number of INFO, in the line that begins with `line`, behind `name`; 0 without it.
pub(crate) fn number(text: &str, line: &str, name: &str) -> f64 {
    let line = text.lines().find_map(|text| text.strip_prefix(line));
    let number = line.and_then(|line| line.split_once(name)?.1.split(',').next()?.trim().parse().ok());
    number.unwrap_or(0.0)
}

/// The processor time that it has used so far, in seconds.
pub(crate) async fn redis_cpu(bare: &mut Bare) -> Result<f64, BenchError> {
    let text = section(bare, "cpu").await?;
    Ok(number(&text, "used_cpu_user:", "") + number(&text, "used_cpu_sys:", ""))
}
