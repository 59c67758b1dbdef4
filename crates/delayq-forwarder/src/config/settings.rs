//! The sections of a forwarder, and the checks across sections.

use super::{ForwarderConfig, RouteConfig};
use crate::sinks::{Kind, SinkConfig};
use delayq_service::config::{Faults, Locations, RedisConfig};
use std::collections::BTreeMap;

/// The sections of a forwarder, in a process of its own or in another program.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings {
    /// `[forwarder]`
    pub forwarder: ForwarderConfig,
    /// `[sinks.NAME]`
    pub sinks: BTreeMap<String, SinkConfig>,
    /// `[[routes]]`
    pub routes: Vec<RouteConfig>,
    /// Where each key was written.
    pub locations: Locations,
}

// === impl Settings ===

impl Settings {
    /// Tells whether a topic has a route.
    #[must_use]
    pub fn has_route(&self, topic: &str) -> bool {
        self.routes.iter().any(|route| route.topic.matches(topic))
    }

    /// Checks the three sections against each other and against `[redis]`.
    pub fn contradictions(&self, redis: &RedisConfig, at: &mut Faults) {
        for (i, route) in self.routes.iter().enumerate() {
            self.contradictions_of_route(at, i, route);
        }
        let several = match redis.nodes.is_empty() {
            false => Some("[[redis.nodes]] are several Redises"),
            true => redis.url.is_cluster().then_some("[redis] is a Redis Cluster"),
        };
        if let Some(several) = several {
            self.contradictions_of_sinks(several, at);
        }
    }

    /// Refuses sinks that deliver into the deployment's own Redis when the deployment has several.
    fn contradictions_of_sinks(&self, several: &str, at: &mut Faults) {
        for (name, sink) in &self.sinks {
            if sink.redis.as_ref().is_some_and(|redis| redis.server.is_none()) {
                let message = format!("{several}; set `server` to the Redis to deliver into");
                at.refuse(&format!("sinks.{name}.redis"), message);
            }
        }
    }

    fn contradictions_of_route(&self, at: &mut Faults, i: usize, route: &RouteConfig) {
        if !route.sink.is_empty() && !self.sinks.contains_key(&route.sink) {
            let known: Vec<&str> = self.sinks.keys().map(String::as_str).collect();
            let known = if known.is_empty() { "there are none".to_owned() } else { known.join(", ") };
            let message = format!("no [sinks.{}]; known sinks: {known}", route.sink);
            at.refuse(&format!("routes[{i}].sink"), message);
        }
        let takes_partitions = |sink: &SinkConfig| sink.kind() == Some(Kind::Kafka);
        if route.partition.is_some()
            && self.sinks.get(&route.sink).is_some_and(|sink| !takes_partitions(sink))
        {
            let message = format!("only Kafka has partitions, and the sink {} is not Kafka", route.sink);
            at.refuse(&format!("routes[{i}].partition"), message);
        }
        let covering = |earlier: &RouteConfig| earlier.topic.covers(&route.topic);
        if let Some(first) = self.routes[..i].iter().position(covering) {
            let message = format!(
                "this route never matches: route {} (`{}`) comes first and matches every topic of `{}`",
                first + 1,
                self.routes[first].topic,
                route.topic
            );
            at.refuse(&format!("routes[{i}].topic"), message);
        }
    }
}
