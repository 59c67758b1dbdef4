//! `delayq topic`: policy, pause, rate.

use std::time::Duration;

use clap::{Args, Subcommand};
use delayq_core::{Backoff, Codec, Policy, Repeats, Topic as Name, Trained};
use delayq_service::Fault;
use serde_json::json;

use crate::commands::topics;
use crate::deployment::Context;
use crate::failure::of_core;
use crate::output::{duration, time};
use crate::when::Span;

/// Set a topic's policy, pause it, bound its rate
#[derive(Debug, Args)]
pub struct Topic {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Its numbers, how it flows, and its policy
    Show {
        /// The topic
        topic: Name,
    },
    /// Set its policy; what is not given goes back to its default
    Set(Box<Set>),
    /// Hand out nothing more: what becomes due waits in the ready queue
    Pause {
        /// The topic
        topic: Name,
    },
    /// Hand out again
    Resume {
        /// The topic
        topic: Name,
    },
    /// Train a compression dictionary on what is pending, and compress with it from now on
    TrainDictionary {
        /// The topic
        topic: Name,
        /// At most so many pending payloads are looked at
        #[arg(long, value_name = "COUNT", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(100..=100_000))]
        samples: u32,
    },
    /// Hand out at most so many messages a second, all shards together; "none" for no bound
    Rate {
        /// The topic
        topic: Name,
        /// Messages a second, or none
        #[arg(value_parser = rate)]
        rate: Rate,
    },
}

/// A policy on the command line.
#[derive(Debug, Args)]
struct Set {
    /// The topic
    topic: Name,
    /// The topic may be new: set it before its first message
    #[arg(long)]
    create: bool,
    /// The most attempts; 0 for no bound. Default 16
    #[arg(long, value_name = "COUNT")]
    max_attempts: Option<u16>,
    /// How long a lease lasts. Default 30s
    #[arg(long, value_name = "DURATION")]
    lease: Option<Span>,
    /// How long to rest before another try: 10s (fixed), 1s..10m (exponential), 1s,5s,1m (a list). Default 1s..10m
    #[arg(long, value_parser = backoff)]
    backoff: Option<Backoff>,
    /// A message expires so long after its due time; 0s for never, which is the default
    #[arg(long, value_name = "DURATION")]
    expire_after: Option<Span>,
    /// How long a cancelled id is remembered. Default 1h
    #[arg(long, value_name = "DURATION")]
    remember_cancelled: Option<Span>,
    /// How long an id of the producer's own is remembered when it is over. Default 1m
    #[arg(long, value_name = "DURATION")]
    remember_own: Option<Span>,
    /// How long a generated id is remembered when it is over. Default not at all
    #[arg(long, value_name = "DURATION")]
    remember_generated: Option<Span>,
    /// What becomes of a repeated put whose first try may have ended and been forgotten: deliver (perhaps twice) or
    /// refuse (perhaps never). Default deliver
    #[arg(long)]
    repeats: Option<Repeats>,
    /// How payloads are compressed: none, zstd, or zstd:ID of a dictionary. Default none
    #[arg(long)]
    codec: Option<Codec>,
}

#[derive(Clone, Copy, Debug)]
struct Rate(Option<f64>);

// === impl Topic ===

impl Topic {
    /// Does it.
    ///
    /// # Errors
    /// Redis cannot be used, or a setting is refused.
    pub async fn run(self, context: &Context) -> Result<(), Fault> {
        let admin = context.admin();
        let (topic, done) = match self.action {
            Action::Show { topic } => return show(context, &topic).await,
            Action::Set(set) => {
                if !set.create {
                    context.known_topic(&set.topic).await?;
                }
                let (topic, policy) = set.policy();
                admin.set_policy(&topic, &policy).await.map_err(of_core)?;
                (topic, "set".to_owned())
            }
            Action::Pause { topic } => {
                context.known_topic(&topic).await?;
                admin.pause(&topic).await.map_err(of_core)?;
                (topic, "paused".to_owned())
            }
            Action::Resume { topic } => {
                context.known_topic(&topic).await?;
                admin.resume(&topic).await.map_err(of_core)?;
                (topic, "resumed".to_owned())
            }
            Action::TrainDictionary { topic, samples } => {
                context.known_topic(&topic).await?;
                let trained = admin.train_dictionary(&topic, samples as usize).await.map_err(of_core)?;
                (topic, trained_text(trained))
            }
            Action::Rate { topic, rate: Rate(rate) } => {
                context.known_topic(&topic).await?;
                admin.set_rate(&topic, rate).await.map_err(of_core)?;
                (topic, rate.map_or("unbounded".to_owned(), |rate| format!("at most {rate}/s")))
            }
        };
        context.output.print(&json!({ "topic": topic, "done": done }), || format!("{topic}: {done}"))
    }
}

fn trained_text(Trained { id, samples, plain_bytes, compressed_bytes }: Trained) -> String {
    let times = plain_bytes as f64 / compressed_bytes.max(1) as f64;
    format!(
        "compressed with dictionary {id}: {samples} payloads of {plain_bytes} bytes took {compressed_bytes} ({times:.1} times less)"
    )
}

async fn show(context: &Context, topic: &Name) -> Result<(), Fault> {
    context.known_topic(topic).await?;
    let admin = context.admin();
    let numbers = admin.count(topic).await.map_err(of_core)?;
    let policy = settings(&admin.client().policy(topic).await.map_err(of_core)?);
    let mut shown = json!(numbers);
    shown["policy"] = policy.iter().map(|(name, value)| (*name, value.clone())).collect();
    context.output.print(&shown, || {
        let mut rows = context.output.rows(&["field", "value"]);
        for (name, number) in topics::columns(&numbers) {
            rows.row([name.to_owned(), number.to_string()]);
        }
        rows.row(["next due".to_owned(), numbers.next_due.map_or("none".to_owned(), time)]);
        rows.row(["flow".to_owned(), topics::flow(&numbers)]);
        for (name, value) in policy {
            rows.row([name.replace('_', " "), value.unwrap_or_else(|| "default".to_owned())]);
        }
        rows.text()
    })
}

/// A policy's settings by name, as `set` takes them; `None`: at its default.
fn settings(policy: &Policy) -> [(&'static str, Option<String>); 9] {
    let span = |span: Option<Duration>| span.map(duration);
    [
        ("max_attempts", policy.max_attempts.map(|most| most.to_string())),
        ("lease", span(policy.lease)),
        ("backoff", policy.backoff.as_ref().map(backoff_text)),
        ("expire_after", span(policy.expire_after)),
        ("remember_cancelled", span(policy.remember_cancelled)),
        ("remember_own", span(policy.remember_own)),
        ("remember_generated", span(policy.remember_generated)),
        ("repeats", policy.repeats.map(|repeats| repeats.to_string())),
        ("codec", policy.codec.map(|codec| codec.to_string())),
    ]
}

fn backoff_text(backoff: &Backoff) -> String {
    match backoff {
        Backoff::Fixed(delay) => duration(*delay),
        Backoff::Exponential { first, longest } => format!("{}..{}", duration(*first), duration(*longest)),
        Backoff::List(delays) => delays.iter().map(|&delay| duration(delay)).collect::<Vec<_>>().join(","),
    }
}

// === impl Set ===

impl Set {
    fn policy(self) -> (Name, Policy) {
        let span = |span: Option<Span>| span.map(Duration::from);
        let policy = Policy {
            max_attempts: self.max_attempts,
            lease: span(self.lease),
            backoff: self.backoff,
            expire_after: span(self.expire_after),
            remember_cancelled: span(self.remember_cancelled),
            remember_own: span(self.remember_own),
            remember_generated: span(self.remember_generated),
            repeats: self.repeats,
            codec: self.codec,
        };
        (self.topic, policy)
    }
}

fn rate(text: &str) -> Result<Rate, String> {
    if text == "none" {
        return Ok(Rate(None));
    }
    match text.parse::<f64>() {
        Ok(rate) if rate.is_finite() && rate > 0.0 => Ok(Rate(Some(rate))),
        _ => Err("write messages a second, more than 0, or none".to_owned()),
    }
}

fn backoff(text: &str) -> Result<Backoff, String> {
    let span = |text: &str| text.trim().parse::<Span>().map(Duration::from);
    let short = |delay: &Duration| (1..=u128::from(u32::MAX)).contains(&delay.as_millis());
    let (backoff, delays) = if let Some((first, longest)) = text.split_once("..") {
        let (first, longest) = (span(first)?, span(longest)?);
        if first > longest {
            return Err("the first delay is longer than the longest".to_owned());
        }
        (Backoff::Exponential { first, longest }, vec![first, longest])
    } else {
        let delays = text.split(',').map(span).collect::<Result<Vec<_>, _>>()?;
        match delays.as_slice() {
            [delay] => (Backoff::Fixed(*delay), delays),
            _ => (Backoff::List(delays.clone()), delays),
        }
    };
    if delays.len() > 32 || !delays.iter().all(short) {
        return Err("a delay is 1ms to 49 days, and a list has at most 32 of them".to_owned());
    }
    Ok(backoff)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_back_off_is_fixed_exponential_or_a_list() {
        let s = Duration::from_secs;
        assert_eq!(backoff("10s"), Ok(Backoff::Fixed(s(10))));
        assert_eq!(backoff("1s..10m"), Ok(Backoff::Exponential { first: s(1), longest: s(600) }));
        assert_eq!(backoff("1s, 5s,1m"), Ok(Backoff::List(vec![s(1), s(5), s(60)])));
        for bad in ["", "0s", "10m..1s", "5", "60days", "1s..", &["1s"; 33].join(",")] {
            assert!(backoff(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_policy_is_shown_as_it_is_set() {
        let list = Backoff::List([1, 5, 60].map(Duration::from_secs).to_vec());
        let policy =
            Policy { lease: Some(Duration::from_secs(90)), backoff: Some(list.clone()), ..Policy::default() };
        let shown: std::collections::BTreeMap<_, _> = settings(&policy).into();
        assert_eq!(shown["backoff"].as_deref().map(backoff), Some(Ok(list)));
        assert_eq!((shown["lease"].as_deref(), shown["codec"].as_deref()), (Some("1m 30s"), None));
        let exponential = backoff("1s..10m").unwrap();
        assert_eq!(backoff(&backoff_text(&exponential)), Ok(exponential));
    }

    #[test]
    fn a_rate_is_positive_or_none() {
        assert!(matches!(rate("none"), Ok(Rate(None))) && matches!(rate("2.5"), Ok(Rate(Some(2.5)))));
        assert!(["0", "-1", "NaN", "inf", "many"].iter().all(|bad| rate(bad).is_err()));
    }
}
