//! Creates every sink and checks every known destination before any delivery.
//!
//! `delayq config check` and the forwarder's start share this code, so both report the same faults.

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

pub(crate) type Sinks = BTreeMap<String, Arc<NamedSink>>;

/// `None` for a destination that depends on the message.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SinkTarget {
    pub(crate) sink: String,
    pub(crate) destination: Option<String>,
}

#[derive(Debug, Default)]
pub(crate) struct Checked {
    pub(crate) fit: BTreeSet<SinkTarget>,
    /// Settings that may lose messages, possibly on purpose.
    pub(crate) warnings: Vec<(SinkTarget, String)>,
    pub(crate) waiting: Vec<(SinkTarget, String)>,
}

/// Checks every destination of a configuration as the start of a forwarder does, and delivers nothing. Returns the
/// warnings that a forwarder would log.
///
/// # Errors
/// The fault that would keep a forwarder from starting: [`DESTINATION_REFUSED`], [`DESTINATION_UNREACHABLE`] unless the
/// sink is not required, [`SINK_UNUSABLE`].
pub async fn examine(settings: &Settings, redis: &RedisConfig) -> Result<Vec<String>, Fault> {
    let sinks = make(settings, redis)?;
    let routes = Routes::new(settings).map_err(|message| Fault::new(&SINK_UNUSABLE, message))?;
    let checked = check(settings, &sinks, &routes).await;
    join_all(sinks.values().map(|sink| tokio::time::timeout(sink.timeout, sink.sink.close()))).await;
    let Checked { warnings, waiting, .. } = checked?;
    let waiting = waiting.into_iter().map(|(target, why)| (target, format!("not available yet: {why}")));
    Ok(warnings.into_iter().chain(waiting).map(|(target, text)| settings.sentence(&target, &text)).collect())
}

/// Without connecting. The error lists every sink that cannot be created.
pub(crate) fn make(settings: &Settings, redis: &RedisConfig) -> Result<Sinks, Fault> {
    let mut maker = Maker::new(redis);
    let (mut sinks, mut faults) = (Sinks::new(), Vec::new());
    for (name, config) in &settings.sinks {
        match maker.make(config) {
            Ok(sink) => drop(sinks.insert(name.clone(), Arc::new(NamedSink::new(name, sink, config)))),
            Err(why) => faults.push((&SINK_UNUSABLE, settings.sentence(&SinkTarget::sink(name), &why))),
        }
    }
    join(faults).map_or(Ok(sinks), Err)
}

/// Checks every sink, then every known destination of the available sinks.
///
/// # Errors
/// All destinations that are unsafe, and all required destinations that cannot be reached.
pub(crate) async fn check(settings: &Settings, sinks: &Sinks, routes: &Routes) -> Result<Checked, Fault> {
    let (mut checked, mut faults) = (Checked::default(), Vec::new());
    let servers = sinks.keys().map(|name| SinkTarget::sink(name)).collect();
    check_all(settings, sinks, servers, &mut checked, &mut faults).await;
    let destination = |(sink, to): (&str, Option<&str>)| {
        let destination = to.filter(|_| checked.fit.contains(&SinkTarget::sink(sink)))?;
        Some(SinkTarget { destination: Some(destination.to_owned()), ..SinkTarget::sink(sink) })
    };
    let destinations = routes.fixed().filter_map(destination).collect();
    check_all(settings, sinks, destinations, &mut checked, &mut faults).await;
    join(faults).map_or(Ok(checked), Err)
}

async fn check_all(
    settings: &Settings,
    sinks: &Sinks,
    targets: BTreeSet<SinkTarget>,
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

/// Joins all faults under the gravest code: a fault that only a changed configuration can fix.
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

// === impl SinkTarget ===

impl SinkTarget {
    fn sink(name: &str) -> Self {
        Self { sink: name.to_owned(), destination: None }
    }
}

// === impl Settings ===

impl Settings {
    fn sentence(&self, SinkTarget { sink: name, destination }: &SinkTarget, why: &str) -> String {
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
