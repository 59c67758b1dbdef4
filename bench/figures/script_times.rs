//! Which scripts take Redis's time.
//!
//! `INFO commandstats` counts all scripts as one command. So each script's share is that of samples: every command of a few
//! milliseconds, by the slow log.

use crate::bare::{Answer, Bare};
use crate::bench::Prepared;
use crate::error::BenchError;
use crate::server::section;
use delayq::protocol::Verb;
use std::collections::HashMap;
use std::time::Duration;

/// The scripts that are told apart; the others are rare.
const SCRIPTS: [Verb; 4] = [Verb::Put, Verb::Pump, Verb::Reserve, Verb::Ack];
const SAMPLE: Duration = Duration::from_millis(2);
/// More commands than there are in one sample.
const MOST_COMMANDS: &str = "4096";

/// What scripts took since the beginning.
pub(crate) struct ScriptTimes {
    /// Of all scripts at the beginning, in seconds.
    began: f64,
    /// Of each script in the samples, in µs, by its hash.
    sampled: HashMap<Vec<u8>, i64>,
}

// === impl ScriptTimes ===

impl ScriptTimes {
    pub(crate) async fn begin(bare: &mut Bare) -> Result<Self, BenchError> {
        bare.call(&["CONFIG", "SET", "slowlog-max-len", MOST_COMMANDS]).await?;
        Ok(Self { began: in_scripts(bare).await?, sampled: HashMap::new() })
    }

    /// Records the commands of a few milliseconds.
    pub(crate) async fn sample(&mut self, bare: &mut Bare) -> Result<(), BenchError> {
        bare.call(&["SLOWLOG", "RESET"]).await?;
        bare.call(&["CONFIG", "SET", "slowlog-log-slower-than", "0"]).await?;
        tokio::time::sleep(SAMPLE).await;
        bare.call(&["CONFIG", "SET", "slowlog-log-slower-than", "-1"]).await?;
        let Answer::List(entries) = bare.call(&["SLOWLOG", "GET", MOST_COMMANDS]).await? else {
            return Err(BenchError::Wrong("SLOWLOG answered no list".to_owned()));
        };
        for (sha, micros) in entries.iter().filter_map(script) {
            *self.sampled.entry(sha.to_vec()).or_default() += micros;
        }
        Ok(())
    }

    /// The share of each script in so many seconds of Redis's time, and of what Redis does outside of scripts.
    pub(crate) async fn shares(
        &self,
        prepared: &mut Prepared,
        cpu: f64,
    ) -> Result<Vec<(&'static str, f64)>, BenchError> {
        let in_scripts = (in_scripts(&mut prepared.bare).await? - self.began) / cpu;
        let all = self.sampled.values().sum::<i64>().max(1) as f64;
        let share = |verb: Verb| {
            let sampled = self.sampled.get(prepared.sha(verb).as_bytes()).copied().unwrap_or(0);
            in_scripts * sampled as f64 / all
        };
        let shares = SCRIPTS.map(|verb| (verb.name(), share(verb)));
        let others = in_scripts - shares.iter().map(|(_, share)| share).sum::<f64>();
        Ok(shares
            .into_iter()
            .chain([("other scripts", others), ("outside of scripts", 1.0 - in_scripts)])
            .collect())
    }
}

/// The hash of the script that an entry of the slow log ran, and its µs.
fn script(entry: &Answer) -> Option<(&[u8], i64)> {
    let Answer::List(entry) = entry else { return None };
    let [_, _, Answer::Number(micros), Answer::List(words), ..] = entry.as_slice() else { return None };
    match words.as_slice() {
        [Answer::Text(command), Answer::Text(sha), ..] if command == b"EVALSHA" => Some((sha, *micros)),
        _ => None,
    }
}

/// The time that Redis has spent in scripts so far, in seconds.
async fn in_scripts(bare: &mut Bare) -> Result<f64, BenchError> {
    let text = section(bare, "commandstats").await?;
    let line = text.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:"));
    let micros = line.and_then(|line| line.split_once("usec=")?.1.split(',').next()?.parse::<f64>().ok());
    Ok(micros.unwrap_or(0.0) / 1e6)
}
