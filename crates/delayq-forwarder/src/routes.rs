//! Routes: the first whose pattern matches a topic says where its messages go.

use crate::{
    config::{RouteConfig, Settings},
    pattern::Pattern,
    template::Template,
};
use delayq_core::Topic;

/// A route that has been read.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Route {
    /// The topics it is for.
    pub(crate) topic: Pattern,
    /// The name of its sink.
    pub(crate) sink: String,
    /// The destination.
    pub(crate) to: Template,
    /// The key; `None`: the group or the id.
    pub(crate) key: Option<Template>,
    /// The partition; `None`: the one that the key goes to.
    pub(crate) partition: Option<Template>,
    /// Headers to add.
    pub(crate) headers: Vec<(String, Template)>,
}

/// All routes, in their order.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Routes(Vec<Route>);

// === impl Route ===

impl Route {
    /// Reads a route; `default_to` is the destination of one that names none.
    ///
    /// # Errors
    /// A sentence; a validated configuration has none.
    pub(crate) fn new(config: &RouteConfig, default_to: &str) -> Result<Self, String> {
        let headers = config.headers.iter().map(|(name, text)| Ok((name.clone(), Template::new(text)?)));
        Ok(Self {
            topic: Pattern::new(&config.topic)?,
            sink: config.sink.clone(),
            to: Template::new(config.to.as_deref().unwrap_or(default_to))?,
            key: config.key.as_deref().map(Template::new).transpose()?,
            partition: config.partition.as_deref().map(Template::new).transpose()?,
            headers: headers.collect::<Result<_, String>>()?,
        })
    }

    /// The same for one topic.
    #[must_use]
    pub(crate) fn of_topic(&self, topic: &Topic) -> Self {
        Self { to: self.to.of_topic(topic.as_str()), ..self.clone() }
    }
}

// === impl Routes ===

impl Routes {
    /// Reads all routes.
    ///
    /// # Errors
    /// A sentence; a validated configuration has none.
    pub(crate) fn new(settings: &Settings) -> Result<Self, String> {
        let route = |config: &RouteConfig| {
            let sink = settings.sinks.get(&config.sink).and_then(crate::sinks::SinkConfig::kind);
            let kind = sink.ok_or_else(|| format!("there is no sink {}", config.sink))?;
            Route::new(config, kind.default_to())
        };
        Ok(Self(settings.routes.iter().map(route).collect::<Result<_, String>>()?))
    }

    /// The route of a topic; `None`: its messages wait.
    #[must_use]
    pub(crate) fn of(&self, topic: &Topic) -> Option<Route> {
        self.0.iter().find(|route| route.topic.matches(topic.as_str())).map(|route| route.of_topic(topic))
    }

    /// Each sink with the destinations that are known before there is a topic.
    pub(crate) fn fixed(&self) -> impl Iterator<Item = (&str, Option<&str>)> {
        self.0.iter().map(|route| (route.sink.as_str(), route.to.fixed()))
    }

    /// The topics that are named outright.
    pub(crate) fn exact_topics(&self) -> impl Iterator<Item = Topic> {
        self.0.iter().filter_map(|route| route.topic.exact().and_then(|text| Topic::new(text).ok()))
    }
}
