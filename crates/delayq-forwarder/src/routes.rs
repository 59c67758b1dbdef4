//! Routes: the first route whose pattern matches a topic decides the destination.

use crate::config::{RouteConfig, Settings};
use crate::sinks::SinkConfig;
use crate::template::Template;
use delayq::Topic;
use std::sync::Arc;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Route {
    pub(crate) config: Arc<RouteConfig>,
    /// Of the route, or the default of the sink's kind.
    pub(crate) to: Template,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Routes(Vec<Route>);

// === impl Route ===

impl Route {
    pub(crate) fn new(config: &RouteConfig, default_to: &str) -> Self {
        let default_to = || default_to.parse().expect("the defaults of the kinds are templates");
        Self { config: Arc::new(config.clone()), to: config.to.clone().unwrap_or_else(default_to) }
    }
}

// === impl Routes ===

impl Routes {
    pub(crate) fn new(settings: &Settings) -> Result<Self, String> {
        let route = |config: &RouteConfig| {
            let kind = settings.sinks.get(&config.sink).and_then(SinkConfig::kind);
            let kind = kind.ok_or_else(|| format!("no sink {}", config.sink))?;
            Ok(Route::new(config, kind.default_to()))
        };
        Ok(Self(settings.routes.iter().map(route).collect::<Result<_, String>>()?))
    }

    /// With the topic filled in; `None`: the messages wait.
    #[must_use]
    pub(crate) fn of(&self, topic: &Topic) -> Option<Route> {
        let route = self.0.iter().find(|route| route.config.topic.matches(topic.as_str()))?;
        Some(Route { to: route.to.of_topic(topic.as_str()), config: route.config.clone() })
    }

    pub(crate) fn fixed(&self) -> impl Iterator<Item = (&str, Option<&str>)> {
        self.0.iter().map(|route| (route.config.sink.as_str(), route.to.fixed()))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Route> {
        self.0.iter()
    }

    pub(crate) fn exact_topics(&self) -> impl Iterator<Item = Topic> {
        self.0.iter().filter_map(|route| route.config.topic.exact().and_then(|text| Topic::new(text).ok()))
    }
}
