//! `delayq check`: one look, for a monitoring system.

use crate::commands::check::judge::{Judged, Limits, Status};
use crate::commands::check::look::Look;
use crate::deployment::{Context, Global};
use crate::failure::{UNKNOWN, usage};
use crate::output::say;
use clap::{Args, ValueEnum};
use delayq::Topic;
use delayq_service::Fault;
use delayq_service::config::HumanDuration;
use serde_json::json;
use std::process::ExitCode;
use std::time::Duration;

mod judge;
mod look;
mod print;

/// Check the deployment once, for Nagios, Prometheus or people
///
/// Checks Redis, how long shards are overdue, the timers, how long ready messages have waited for a consumer, ready messages
/// and dead letters of each topic, the outbox and the intakes. The exit code is the result: 0 OK, 1 WARNING, 2 CRITICAL,
/// 3 UNKNOWN. Without --format it prints one line in the format of Nagios plugins.
#[derive(Debug, Args)]
pub struct Check {
    /// How to print it
    #[arg(long, value_enum, default_value_t = Format::Nagios)]
    format: Format,
    /// Count only messages of this topic; may be repeated
    #[arg(long = "topic", short = 't', value_name = "TOPIC")]
    topics: Vec<Topic>,
    /// Warn if a shard has been overdue for this long
    #[arg(long, value_name = "DURATION", default_value = "2s")]
    warn_overdue: HumanDuration,
    /// Critical if a shard has been overdue for this long
    #[arg(long, value_name = "DURATION", default_value = "30s")]
    crit_overdue: HumanDuration,
    /// Warn if a topic has this many ready messages
    #[arg(long, value_name = "COUNT")]
    warn_ready: Option<u64>,
    /// Critical if a topic has this many ready messages
    #[arg(long, value_name = "COUNT")]
    crit_ready: Option<u64>,
    /// Warn if the oldest ready message of a topic has waited for this long; 0s: never
    #[arg(long, value_name = "DURATION", default_value = "5m")]
    warn_ready_age: HumanDuration,
    /// Critical if the oldest ready message of a topic has waited for this long; 0s: never
    #[arg(long, value_name = "DURATION", default_value = "1h")]
    crit_ready_age: HumanDuration,
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
enum Format {
    /// One line and performance data
    Nagios,
    /// The text format of Prometheus, for a textfile collector
    Prometheus,
    /// A table
    Human,
}

// === impl Check ===

impl Check {
    /// Looks, and prints what it finds.
    ///
    /// # Errors
    /// A warning threshold behind its critical one, or standard output cannot be written. What keeps the check from
    /// looking is UNKNOWN.
    pub async fn run(self, global: &Global) -> Result<ExitCode, Fault> {
        let limits = self.limits()?;
        let output = crate::output::Output::of_process(global.json());
        let look = match global.context() {
            Ok(context) => self.look(global, &context).await,
            Err(fault) => Err(fault.to_string()),
        };
        let (look, judged) = match look {
            Ok(look) => {
                let judged = judge::judge(&look, &limits);
                (look, judged)
            }
            Err(why) => (Look::default(), vec![Judged::new(Status::Unknown, "check", why)]),
        };
        let status = judge::worst(&judged);
        if output.json {
            let value = json!({ "status": status.word(), "checks": judged, "overdue_ms": look.overdue_ms() });
            output.print(&value, String::new)?;
        } else {
            say(&match self.format {
                Format::Nagios => print::nagios(&look, &judged, &limits),
                Format::Prometheus => print::prometheus(&look, status),
                Format::Human => print::human(output, &judged),
            })?;
        }
        Ok(ExitCode::from(status.code()))
    }

    async fn look(&self, global: &Global, context: &Context) -> Result<Look, String> {
        let looking = async {
            for topic in &self.topics {
                match context.known_topic(topic).await {
                    Err(fault) if fault.code() == &UNKNOWN => return Err(fault.to_string()),
                    // The look says what is wrong with Redis: one question is enough.
                    Err(_) => break,
                    Ok(_) => {}
                }
            }
            Ok(Look::take(global, context, &self.topics).await)
        };
        match tokio::time::timeout(*self.deadline, looking).await {
            Ok(look) => look,
            Err(_) => Err(format!("no answer within {}", self.deadline)),
        }
    }

    fn limits(&self) -> Result<Limits, Fault> {
        let seconds = |span: HumanDuration| Duration::from(span).as_secs_f64();
        let unless_zero = |span: HumanDuration| Some(seconds(span)).filter(|&seconds| seconds > 0.0);
        let counts = |warn: Option<u64>, crit: Option<u64>| (warn.map(|n| n as f64), crit.map(|n| n as f64));
        let limits = Limits {
            overdue: (Some(seconds(self.warn_overdue)), Some(seconds(self.crit_overdue))),
            ready_age: (unless_zero(self.warn_ready_age), unless_zero(self.crit_ready_age)),
            ready: counts(self.warn_ready, self.crit_ready),
            dead: counts(self.warn_dead, self.crit_dead),
        };
        for (name, (warn, crit)) in [
            ("overdue", limits.overdue),
            ("ready-age", limits.ready_age),
            ("ready", limits.ready),
            ("dead", limits.dead),
        ] {
            if warn.zip(crit).is_some_and(|(warn, crit)| warn > crit) {
                return Err(usage(format!("--warn-{name} is above --crit-{name}")));
            }
        }
        Ok(limits)
    }
}
