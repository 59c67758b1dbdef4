//! What a forwarder is made of, wherever it runs, and what its sections cannot know of each other.

use super::{ForwarderConfig, RouteConfig, Sharing};
use crate::{
    pattern::Pattern,
    sinks::{Kind, SinkConfig},
};
use delayq_service::config::{EtcdConfig, Faults, Places};
use std::collections::BTreeMap;

/// The sections that make a forwarder, wherever it runs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings {
    /// `[forwarder]`
    pub forwarder: ForwarderConfig,
    /// `[sinks.NAME]`
    pub sinks: BTreeMap<String, SinkConfig>,
    /// `[[routes]]`
    pub routes: Vec<RouteConfig>,
    /// Where they are written.
    pub places: Places,
}

// === impl Settings ===

impl Settings {
    /// Whether any route is for a topic.
    #[must_use]
    pub fn has_route(&self, topic: &str) -> bool {
        let takes =
            |route: &RouteConfig| Pattern::new(&route.topic).is_ok_and(|pattern| pattern.matches(topic));
        self.routes.iter().any(takes)
    }

    /// Reports what the three sections cannot know of each other, and of `[etcd]`. For a configuration that holds them.
    pub fn contradictions(&self, etcd: &EtcdConfig, at: &mut Faults) {
        if self.forwarder.sharing == Sharing::Plan && !etcd.enabled {
            at.contradiction(
                &["forwarder.sharing", "etcd.enabled"],
                "the plan is in etcd, but `enabled` is false",
            );
        }
        for (i, route) in self.routes.iter().enumerate() {
            self.contradictions_of_route(at, i, route);
        }
    }

    /// What a route cannot know of itself.
    fn contradictions_of_route(&self, at: &mut Faults, i: usize, route: &RouteConfig) {
        if !self.sinks.contains_key(&route.sink) {
            let known: Vec<&str> = self.sinks.keys().map(String::as_str).collect();
            let known = if known.is_empty() { "there are none".to_owned() } else { known.join(", ") };
            let message = format!("there is no [sinks.{}]; known sinks: {known}", route.sink);
            at.refuse(&format!("routes[{i}].sink"), message);
        }
        let takes_partitions = |sink: &SinkConfig| sink.kinds().contains(&Kind::Kafka);
        if route.partition.is_some()
            && self.sinks.get(&route.sink).is_some_and(|sink| !takes_partitions(sink))
        {
            let message = format!("only Kafka has partitions, and the sink {} is no Kafka", route.sink);
            at.refuse(&format!("routes[{i}].partition"), message);
        }
        let Ok(pattern) = Pattern::new(&route.topic) else { return };
        let covering = |earlier: &RouteConfig| Pattern::new(&earlier.topic).is_ok_and(|p| p.covers(&pattern));
        if let Some(first) = self.routes[..i].iter().position(covering) {
            let message = format!(
                "this route never matches: route {} (`{}`) comes first and takes every topic of `{}`",
                first + 1,
                self.routes[first].topic,
                route.topic
            );
            at.refuse(&format!("routes[{i}].topic"), message);
        }
    }
}
