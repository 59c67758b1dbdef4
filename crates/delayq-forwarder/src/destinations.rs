//! The destinations before anything is delivered: creates every sink and checks every known destination.
//!
//! `delayq config check` and the start of a forwarder both go through here, so both report the same.

use crate::Template;
use crate::codes::{DESTINATION_REFUSED, DESTINATION_UNREACHABLE, SINK_UNUSABLE};
use crate::config::Settings;
use crate::lane::NamedSink;
use crate::routes::Routes;
use crate::sink::CheckError;
use crate::sinks::Maker;
use delayq_service::Fault;
use delayq_service::codes::Code;
use delayq_service::config::RedisConfig;
use futures_util::future::join_all;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The sinks by name.
pub(crate) type Sinks = BTreeMap<String, Arc<NamedSink>>;

/// A sink, and one destination of it where that is known before there is a message.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Target {
    pub(crate) sink: String,
    pub(crate) destination: Option<String>,
}

/// What the check of all destinations found.
#[derive(Debug, Default)]
pub(crate) struct Checked {
    /// Those that can be used.
    pub(crate) fit: BTreeSet<Target>,
    /// What may lose messages, but may be intended.
    pub(crate) warnings: Vec<(Target, String)>,
    /// Those that are not available yet and need not be.
    pub(crate) waiting: Vec<(Target, String)>,
}

/// Checks every destination of a configuration as the start of a forwarder does, and delivers nothing. Returns what a
/// forwarder would warn of.
///
/// # Errors
/// The fault that a forwarder would not start with: [`DESTINATION_REFUSED`], [`DESTINATION_UNREACHABLE`] unless the sink
/// is not required, [`SINK_UNUSABLE`].
pub async fn examine(settings: &Settings, redis: &RedisConfig) -> Result<Vec<String>, Fault> {
    let sinks = make(settings, redis)?;
    let routes = Routes::new(settings).map_err(|message| Fault::new(&SINK_UNUSABLE, message))?;
    let checked = check(settings, &sinks, &routes).await;
    join_all(sinks.values().map(|sink| tokio::time::timeout(sink.timeout, sink.sink.close()))).await;
    let Checked { warnings, waiting, .. } = checked?;
    let waiting = waiting.into_iter().map(|(target, why)| (target, format!("not available yet: {why}")));
    Ok(warnings.into_iter().chain(waiting).map(|(target, text)| settings.sentence(&target, &text)).collect())
}

/// Creates every sink. Nothing is connected yet.
///
/// # Errors
/// [`SINK_UNUSABLE`], with all that cannot be created.
pub(crate) fn make(settings: &Settings, redis: &RedisConfig) -> Result<Sinks, Fault> {
    let mut maker = Maker::new(redis);
    let (mut sinks, mut faults) = (Sinks::new(), Vec::new());
    for (name, config) in &settings.sinks {
        match maker.make(config) {
            Ok(sink) => drop(sinks.insert(name.clone(), Arc::new(NamedSink::new(name, sink, config)))),
            Err(why) => faults.push((&SINK_UNUSABLE, settings.sentence(&Target::sink(name), &why))),
        }
    }
    join(faults).map_or(Ok(sinks), Err)
}

/// Checks every sink, and then every known destination of those that are available.
///
/// # Errors
/// All that must not be used, and all that cannot be reached and is required.
pub(crate) async fn check(settings: &Settings, sinks: &Sinks, routes: &Routes) -> Result<Checked, Fault> {
    let (mut checked, mut faults) = (Checked::default(), Vec::new());
    let servers = sinks.keys().map(|name| Target::sink(name)).collect();
    check_all(settings, sinks, servers, &mut checked, &mut faults).await;
    let destination = |(sink, to): (&str, Option<&str>)| {
        let destination = to.filter(|_| checked.fit.contains(&Target::sink(sink)))?;
        Some(Target { destination: Some(destination.to_owned()), ..Target::sink(sink) })
    };
    let destinations = routes.fixed().filter_map(destination).collect();
    check_all(settings, sinks, destinations, &mut checked, &mut faults).await;
    join(faults).map_or(Ok(checked), Err)
}

async fn check_all(
    settings: &Settings,
    sinks: &Sinks,
    targets: BTreeSet<Target>,
    checked: &mut Checked,
    faults: &mut Vec<(&'static Code, String)>,
) {
    let answers =
        join_all(targets.iter().map(|target| sinks[&target.sink].check(target.destination.as_deref()))).await;
    for (target, answer) in targets.into_iter().zip(answers) {
        match answer {
            Ok(warnings) => {
                checked.warnings.extend(warnings.into_iter().map(|warning| (target.clone(), warning)));
                checked.fit.insert(target);
            }
            Err(CheckError::Refused(why)) => {
                faults.push((&DESTINATION_REFUSED, settings.sentence(&target, &why)));
            }
            Err(CheckError::Unreachable(why)) if settings.sinks[&target.sink].required => {
                faults.push((&DESTINATION_UNREACHABLE, settings.sentence(&target, &why)));
            }
            Err(CheckError::Unreachable(why)) => checked.waiting.push((target, why)),
        }
    }
}

/// All faults as one, with the code of the gravest: one that only a change of the configuration can mend.
fn join(mut faults: Vec<(&'static Code, String)>) -> Option<Fault> {
    faults.sort_by_key(|(code, _)| code.id);
    match faults.as_slice() {
        [] => None,
        [(code, sentence)] => Some(Fault::new(code, sentence.clone())),
        [(gravest, _), ..] => {
            let lines: Vec<String> =
                faults.iter().map(|(code, sentence)| format!("\n  {}: {sentence}", code.id)).collect();
            Some(Fault::new(
                gravest,
                format!("{} destinations cannot be used{}", lines.len(), lines.concat()),
            ))
        }
    }
}

// === impl Target ===

impl Target {
    fn sink(name: &str) -> Self {
        Self { sink: name.to_owned(), destination: None }
    }
}

// === impl Settings ===

impl Settings {
    /// A sentence about a target, after the line that names it.
    fn sentence(&self, Target { sink: name, destination }: &Target, why: &str) -> String {
        let sink = format!("sinks.{name}");
        let Some(destination) = destination else {
            return self.locations.say(&sink, &format!("{sink}: {why}"));
        };
        let names_it = |route: &crate::RouteConfig| {
            let to = route.to.as_ref().and_then(Template::fixed);
            route.sink == *name && to.is_none_or(|to| to == destination)
        };
        let key = self.routes.iter().position(names_it).map_or(sink.clone(), |i| format!("routes[{i}].to"));
        self.locations.say(&key, &format!("{sink}, destination `{destination}`: {why}"))
    }
}
