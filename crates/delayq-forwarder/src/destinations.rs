//! The destinations before anything is delivered: every sink is made, and every destination that is known is looked at.
//!
//! `delayq config check` and the start of a forwarder both come through here, so both say the same.

use crate::{
    codes::{DESTINATION_REFUSED, DESTINATION_UNREACHABLE, SINK_UNUSABLE},
    config::Settings,
    lane::NamedSink,
    routes::Routes,
    sink::CheckError,
    sinks::Maker,
};
use delayq_service::{Fault, codes::Code, config::RedisConfig};
use futures_util::future::join_all;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// The sinks by name.
pub(crate) type Sinks = BTreeMap<String, Arc<NamedSink>>;

/// A sink, and one destination of it where that is known before there is a message.
pub(crate) type Place = (String, Option<String>);

/// What was seen of the destinations.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// Those that can be used.
    pub(crate) fit: BTreeSet<Place>,
    /// What may lose messages, and may be meant.
    pub(crate) warnings: Vec<(Place, String)>,
    /// Those that are not there yet and need not be.
    pub(crate) waiting: Vec<(Place, String)>,
}

/// Looks at every destination of a configuration, as the start of a forwarder does, and delivers nothing. Gives back
/// what a forwarder would warn of.
///
/// # Errors
/// The fault that a forwarder would not start with: [`DESTINATION_REFUSED`], [`DESTINATION_UNREACHABLE`] unless the sink
/// is not required, [`SINK_UNUSABLE`].
pub async fn examine(settings: &Settings, redis: &RedisConfig) -> Result<Vec<String>, Fault> {
    let sinks = make(settings, redis)?;
    let routes = Routes::new(settings).map_err(|message| Fault::new(&SINK_UNUSABLE, message))?;
    let seen = look(settings, &sinks, &routes).await;
    join_all(sinks.values().map(|sink| tokio::time::timeout(sink.timeout, sink.sink.close()))).await;
    let Seen { warnings, waiting, .. } = seen?;
    let waiting = waiting.into_iter().map(|(place, why)| (place, format!("not there yet: {why}")));
    Ok(warnings.into_iter().chain(waiting).map(|(place, text)| settings.sentence(&place, &text)).collect())
}

/// Makes every sink. Nothing is connected yet.
///
/// # Errors
/// [`SINK_UNUSABLE`], with all that cannot be made.
pub(crate) fn make(settings: &Settings, redis: &RedisConfig) -> Result<Sinks, Fault> {
    let mut maker = Maker::new(redis);
    let (mut sinks, mut faults) = (Sinks::new(), Vec::new());
    for (name, config) in &settings.sinks {
        match maker.make(config) {
            Ok(sink) => drop(sinks.insert(name.clone(), Arc::new(NamedSink::new(name, sink, config)))),
            Err(why) => faults.push((&SINK_UNUSABLE, settings.sentence(&(name.clone(), None), &why))),
        }
    }
    whole(faults).map_or(Ok(sinks), Err)
}

/// Looks at every sink, and then at every destination that is known of those that are there.
///
/// # Errors
/// All that must not be used, and all that cannot be reached and is required.
pub(crate) async fn look(settings: &Settings, sinks: &Sinks, routes: &Routes) -> Result<Seen, Fault> {
    let (mut seen, mut faults) = (Seen::default(), Vec::new());
    look_at(settings, sinks, sinks.keys().map(|name| (name.clone(), None)).collect(), &mut seen, &mut faults)
        .await;
    let there = |sink: &str| seen.fit.contains(&(sink.to_owned(), None));
    let known = routes.fixed().filter(|(sink, to)| to.is_some() && there(sink));
    let known = known.map(|(sink, to)| (sink.to_owned(), to.map(str::to_owned))).collect();
    look_at(settings, sinks, known, &mut seen, &mut faults).await;
    whole(faults).map_or(Ok(seen), Err)
}

async fn look_at(
    settings: &Settings,
    sinks: &Sinks,
    places: BTreeSet<Place>,
    seen: &mut Seen,
    faults: &mut Vec<(&'static Code, String)>,
) {
    let answers = join_all(places.iter().map(|(name, destination)| {
        let sink = &sinks[name];
        let check = tokio::time::timeout(sink.timeout, sink.sink.check(destination.as_deref()));
        async move {
            let silent = |_| Err(CheckError::Unreachable(format!("no answer within {:?}", sink.timeout)));
            check.await.unwrap_or_else(silent)
        }
    }))
    .await;
    for (place, answer) in places.into_iter().zip(answers) {
        match answer {
            Ok(warnings) => {
                seen.warnings.extend(warnings.into_iter().map(|warning| (place.clone(), warning)));
                seen.fit.insert(place);
            }
            Err(CheckError::Refused(why)) => {
                faults.push((&DESTINATION_REFUSED, settings.sentence(&place, &why)));
            }
            Err(CheckError::Unreachable(why)) if settings.sinks[&place.0].required => {
                faults.push((&DESTINATION_UNREACHABLE, settings.sentence(&place, &why)));
            }
            Err(CheckError::Unreachable(why)) => seen.waiting.push((place, why)),
        }
    }
}

/// All faults as one: its code is that of the gravest, one that only a change of the configuration can mend.
fn whole(mut faults: Vec<(&'static Code, String)>) -> Option<Fault> {
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

// === impl Settings ===

impl Settings {
    /// A sentence about a destination, behind the line that names it.
    fn sentence(&self, (name, destination): &Place, why: &str) -> String {
        let sink = format!("sinks.{name}");
        let Some(destination) = destination else {
            return self.places.say(&sink, &format!("{sink}: {why}"));
        };
        let of_it = |route: &&crate::RouteConfig| {
            route.sink == *name && route.to.as_deref().is_none_or(|to| to == destination)
        };
        let route = self.routes.iter().position(|route| of_it(&route));
        let key = route.map_or(sink.clone(), |i| format!("routes[{i}].to"));
        self.places.say(&key, &format!("{sink}, destination `{destination}`: {why}"))
    }
}
