//! Which scripts take Redis's time, and how often they are called.
//!
//! `INFO commandstats` counts all scripts as one command. So each script's share is that of samples: every command of a few
//! milliseconds, by the slow log.

use crate::bare::{Answer, Bare};
use crate::bench::Prepared;
use crate::error::BenchError;
use crate::server::{number, section};
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
    /// All scripts at the beginning.
    began: Total,
    /// Each script in the samples, by its hash.
    sampled: HashMap<Vec<u8>, Sampled>,
}

/// The calls that Redis has run so far.
#[derive(Clone, Copy)]
struct Total {
    scripts: f64,
    in_scripts_seconds: f64,
    notifications: f64,
}

/// The calls of one script in the samples.
#[derive(Clone, Copy, Default)]
struct Sampled {
    calls: u32,
    micros: i64,
}

// === impl ScriptTimes ===

impl ScriptTimes {
    pub(crate) async fn begin(bare: &mut Bare) -> Result<Self, BenchError> {
        bare.call(&["CONFIG", "SET", "slowlog-max-len", MOST_COMMANDS]).await?;
        Ok(Self { began: Total::read(bare).await?, sampled: HashMap::new() })
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
            let sampled = self.sampled.entry(sha.to_vec()).or_default();
            (sampled.calls, sampled.micros) = (sampled.calls + 1, sampled.micros + micros);
        }
        Ok(())
    }

    /// The share of each script in so many seconds of Redis's time, and of what Redis does outside of scripts.
    pub(crate) async fn shares(
        &self,
        prepared: &mut Prepared,
        cpu: f64,
    ) -> Result<Vec<(&'static str, f64)>, BenchError> {
        let now = Total::read(&mut prepared.bare).await?;
        let in_scripts = (now.in_scripts_seconds - self.began.in_scripts_seconds) / cpu;
        let all: i64 = self.sampled.values().map(|sampled| sampled.micros).sum();
        let share = |micros: i64| in_scripts * micros as f64 / all.max(1) as f64;
        let micros = SCRIPTS.map(|verb| (verb.name(), self.sampled(prepared, verb).micros));
        let others = all - micros.iter().map(|(_, micros)| micros).sum::<i64>();
        let in_each = micros.into_iter().chain([("other scripts", others)]);
        let shares = in_each.map(|(name, micros)| (name, share(micros)));
        Ok(shares.chain([("outside of scripts", 1.0 - in_scripts)]).collect())
    }

    /// How often each script was called for `count` messages, and how often Redis notified somebody.
    pub(crate) async fn calls(
        &self,
        prepared: &mut Prepared,
        count: f64,
    ) -> Result<Vec<(&'static str, f64)>, BenchError> {
        let now = Total::read(&mut prepared.bare).await?;
        let all = self.sampled.values().map(|sampled| sampled.calls).sum::<u32>().max(1);
        let scripts = (now.scripts - self.began.scripts) / count;
        let share = |verb: Verb| f64::from(self.sampled(prepared, verb).calls) / f64::from(all);
        let calls = SCRIPTS.map(|verb| (verb.name(), scripts * share(verb)));
        let notifications = (now.notifications - self.began.notifications) / count;
        Ok(calls.into_iter().chain([("notifications", notifications)]).collect())
    }

    fn sampled(&self, prepared: &Prepared, verb: Verb) -> Sampled {
        self.sampled.get(prepared.sha(verb).as_bytes()).copied().unwrap_or_default()
    }
}

// === impl Total ===

impl Total {
    async fn read(bare: &mut Bare) -> Result<Self, BenchError> {
        let text = section(bare, "commandstats").await?;
        Ok(Self {
            scripts: number(&text, "cmdstat_evalsha:", "calls="),
            in_scripts_seconds: number(&text, "cmdstat_evalsha:", "usec=") / 1e6,
            notifications: number(&text, "cmdstat_spublish:", "calls="),
        })
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
