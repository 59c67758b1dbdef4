//! `delayq check`: a single look, for a monitoring system.

use crate::commands::doctor::here;
use crate::deployment::{Context, Global};
use crate::failure::{UNKNOWN, usage};
use crate::look::known;
use crate::output::{Output, say};
use clap::{Args, ValueEnum};
use delayq::Topic;
use delayq_look::{Check as Checked, Limits, Look, Pair, Want, Which, judge, pair, worst};
use delayq_service::Fault;
use delayq_service::config::HumanDuration;
use serde_json::{Value, json};
use status::Status;
use std::process::ExitCode;

mod print;
mod status;

/// Check the deployment once, for Nagios, Prometheus or people
///
/// Gives the verdicts of `delayq doctor`, without its advice on settings. The exit code is the result: 0 OK, 1 WARNING
/// (a check is *warning*), 2 CRITICAL (one is *bad*), 3 UNKNOWN. Without --format it prints one line in the format of Nagios
/// plugins.
///
/// Of a pair of thresholds, one alone may be given. If it contradicts the default of the other, the default gives way: a
/// default for WARNING falls to the given CRITICAL, and a default for CRITICAL that is below the given WARNING is off.
/// A threshold of 0 is off.
#[derive(Debug, Args)]
pub struct Check {
    /// How to print it
    #[arg(long, value_enum, default_value_t = CheckFormat::Nagios, conflicts_with_all = ["json", "output"])]
    format: CheckFormat,
    /// Count only messages of this topic; may be repeated
    #[arg(long = "topic", short = 't', value_name = "TOPIC")]
    topics: Vec<Topic>,
    /// Warn if a shard has been overdue for this long. Default 2s
    #[arg(long, value_name = "DURATION")]
    warn_overdue: Option<HumanDuration>,
    /// Critical if a shard has been overdue for this long. Default 30s
    #[arg(long, value_name = "DURATION")]
    crit_overdue: Option<HumanDuration>,
    /// Warn if a topic has this many ready messages
    #[arg(long, value_name = "COUNT")]
    warn_ready: Option<u64>,
    /// Critical if a topic has this many ready messages
    #[arg(long, value_name = "COUNT")]
    crit_ready: Option<u64>,
    /// Warn if the oldest ready message of a topic has waited for this long. Default 5m
    #[arg(long, value_name = "DURATION")]
    warn_ready_age: Option<HumanDuration>,
    /// Critical if the oldest ready message of a topic has waited for this long. Default 1h
    #[arg(long, value_name = "DURATION")]
    crit_ready_age: Option<HumanDuration>,
    /// Warn if a topic has this many dead letters
    #[arg(long, value_name = "COUNT")]
    warn_dead: Option<u64>,
    /// Critical if a topic has this many dead letters
    #[arg(long, value_name = "COUNT")]
    crit_dead: Option<u64>,
    /// How long the check may take; if it takes longer, the result is UNKNOWN
    #[arg(long, value_name = "DURATION", default_value = "10s")]
    deadline: HumanDuration,
}

/// How a check prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum CheckFormat {
    /// One line and performance data
    Nagios,
    /// The text format of Prometheus, for a textfile collector
    Prometheus,
    /// A table
    Human,
}

type CheckedLook = (Option<Look>, Vec<Checked>);

// === impl Check ===

impl Check {
    /// Takes a look and prints the checks.
    ///
    /// # Errors
    /// A warning threshold is above the critical threshold, or standard output cannot be written. A look that fails is
    /// UNKNOWN.
    pub async fn run(self, global: &Global) -> Result<ExitCode, Fault> {
        let limits = self.limits()?;
        let seen = match global.context() {
            Ok(context) => self.look(global, &context, &limits).await,
            Err(fault) => Err(fault.to_string()),
        };
        let (status, look, checks) = match seen {
            Ok((look, checks)) => (Status::from(worst(&checks)), look, checks),
            Err(why) => (Status::Unknown, None, vec![Checked::warning("check", why, "")]),
        };
        let output = Output::of_process(global.json());
        if output.json {
            output.print(&value(status, look.as_ref(), &checks), String::new)?;
        } else {
            say(&match self.format {
                CheckFormat::Nagios => print::nagios(status, look.as_ref(), &checks, &limits),
                CheckFormat::Prometheus => print::prometheus(status, look.as_ref(), &checks),
                CheckFormat::Human => print::human(output, &checks),
            })?;
        }
        Ok(ExitCode::from(status.code()))
    }

    async fn look(&self, global: &Global, context: &Context, limits: &Limits) -> Result<CheckedLook, String> {
        let topics = if self.topics.is_empty() { Which::All(None) } else { Which::Only(&self.topics) };
        let both = async {
            tokio::join!(
                Look::take(&context.deployment, Want { topics, ..Want::JUDGED }),
                here(global, context)
            )
        };
        let Ok((look, here)) = tokio::time::timeout(*self.deadline, both).await else {
            return Err(format!("no answer within {}", self.deadline));
        };
        match known(&look, &self.topics) {
            Err(fault) if fault.code() == &UNKNOWN && look.missing().is_empty() => Err(fault.to_string()),
            _ => {
                let checks = judge(&look, limits).into_iter().chain(here).filter(|check| check.alarms);
                Ok((Some(look), checks.collect()))
            }
        }
    }

    fn limits(&self) -> Result<Limits, Fault> {
        let seconds = |span: Option<HumanDuration>| span.map(|span| span.as_secs_f64());
        let count = |count: Option<u64>| count.map(|count| count as f64);
        let of = |name: &str, given: Pair, default: Pair| {
            let refusal = || usage(format!("--warn-{name} is above --crit-{name}"));
            pair(given, default).ok_or_else(refusal)
        };
        let default = Limits::default();
        let overdue = (seconds(self.warn_overdue), seconds(self.crit_overdue));
        let ready_age = (seconds(self.warn_ready_age), seconds(self.crit_ready_age));
        Ok(Limits {
            overdue: of("overdue", overdue, default.overdue)?,
            ready_age: of("ready-age", ready_age, default.ready_age)?,
            ready: of("ready", (count(self.warn_ready), count(self.crit_ready)), default.ready)?,
            dead: of("dead", (count(self.warn_dead), count(self.crit_dead)), default.dead)?,
        })
    }
}

fn value(status: Status, look: Option<&Look>, checks: &[Checked]) -> Value {
    let shards = look.and_then(|look| look.shards.as_ref().ok());
    let overdue_ms = shards.map(|shards| shards.overdue().as_millis() as u64);
    let checks: Vec<Value> = checks
        .iter()
        .map(|check| {
            let Checked { what, verdict, found, advice, .. } = check;
            let status = if status == Status::Unknown { status } else { Status::from(*verdict) };
            json!({ "status": status.word(), "what": what, "found": found, "advice": advice })
        })
        .collect();
    json!({ "status": status.word(), "checks": checks, "overdue_ms": overdue_ms })
}
