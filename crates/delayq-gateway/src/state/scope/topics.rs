//! Topics: counts, due times and policies.

use super::Scope;
use crate::problem::Problem;
use delayq::admin::{Horizon, Numbers, PausedGroup, Policy, PolicySetting, Slot, TimeRange, TopicDeletion};
use delayq::protocol::ShardId;
use delayq::{Group, Topic, UnixMillis};
use std::time::Duration;

// === impl Scope ===

impl Scope {
    /// Sorted.
    pub(crate) async fn topics(&self) -> Result<Vec<Topic>, Problem> {
        let topics = self.answer(self.app.unscoped().admin.topics().await)?;
        Ok(topics.iter().filter_map(|topic| self.names.shown_topic(topic)).collect())
    }

    pub(crate) async fn count(&self, topic: &Topic) -> Result<Numbers, Problem> {
        let topic = self.names.stored_topic(topic)?;
        self.answer(self.app.unscoped().admin.topic(&topic).count().await)
    }

    /// In the order of the topics.
    pub(crate) async fn count_each(&self, topics: &[Topic]) -> Result<Vec<Numbers>, Problem> {
        let stored = topics.iter().map(|topic| self.names.stored_topic(topic));
        let stored = stored.collect::<Result<Vec<Topic>, Problem>>()?;
        self.answer(self.app.unscoped().admin.count(&stored).await)
    }

    pub(crate) async fn delete(&self, topic: &Topic) -> Result<TopicDeletion, Problem> {
        let topic = self.names.stored_topic(topic)?;
        self.answer(self.app.unscoped().admin.topic(&topic).delete().await)
    }

    pub(crate) async fn histogram(
        &self,
        topic: &Topic,
        group: Option<&Group>,
        range: TimeRange,
        width: Duration,
    ) -> Result<Vec<Slot>, Problem> {
        let topic = self.names.stored_topic(topic)?;
        let group = group.map(|group| self.names.stored_group(group)).transpose()?;
        let admin = self.app.unscoped().admin.topic(&topic);
        self.answer(match &group {
            None => admin.histogram(range, width).await,
            Some(group) => admin.histogram_of_group(group, range, width).await,
        })
    }

    pub(crate) async fn horizon(
        &self,
        topic: &Topic,
        group: Option<&Group>,
        edges: &[UnixMillis],
    ) -> Result<Horizon, Problem> {
        let topic = self.names.stored_topic(topic)?;
        let group = group.map(|group| self.names.stored_group(group)).transpose()?;
        let admin = self.app.unscoped().admin.topic(&topic);
        self.answer(match &group {
            None => admin.horizon(edges).await,
            Some(group) => admin.horizon_of_group(group, edges).await,
        })
    }

    pub(crate) async fn pause(&self, topic: &Topic, group: Option<&Group>) -> Result<(), Problem> {
        let topic = self.names.stored_topic(topic)?;
        let group = group.map(|group| self.names.stored_group(group)).transpose()?;
        let admin = self.app.unscoped().admin.topic(&topic);
        self.answer(match &group {
            None => admin.pause().await,
            Some(group) => admin.pause_group(group).await,
        })
    }

    pub(crate) async fn resume(&self, topic: &Topic, group: Option<&Group>) -> Result<(), Problem> {
        let topic = self.names.stored_topic(topic)?;
        let group = group.map(|group| self.names.stored_group(group)).transpose()?;
        let admin = self.app.unscoped().admin.topic(&topic);
        self.answer(match &group {
            None => admin.resume().await,
            Some(group) => admin.resume_group(group).await,
        })
    }

    /// The longest paused first.
    pub(crate) async fn paused_groups(&self, topic: &Topic) -> Result<Vec<PausedGroup>, Problem> {
        let topic = self.names.stored_topic(topic)?;
        let paused = self.answer(self.app.unscoped().admin.topic(&topic).paused_groups().await)?;
        let shown = paused.into_iter().filter_map(|PausedGroup { group, since }| {
            Some(PausedGroup { group: self.names.shown_group(&group)?, since })
        });
        Ok(shown.collect())
    }

    pub(crate) async fn set_rate(&self, topic: &Topic, a_second: Option<f64>) -> Result<(), Problem> {
        let topic = self.names.stored_topic(topic)?;
        self.answer(self.app.unscoped().admin.topic(&topic).set_rate(a_second).await)
    }

    pub(crate) async fn policy(&self, topic: &Topic) -> Result<Policy, Problem> {
        let topic = self.names.stored_topic(topic)?;
        self.answer(self.app.unscoped().admin.topic(&topic).policy().await)
    }

    pub(crate) async fn set_policy(&self, topic: &Topic, policy: &Policy) -> Result<(), Problem> {
        let topic = self.names.stored_topic(topic)?;
        self.answer(self.app.unscoped().admin.topic(&topic).set_policy(policy).await)
    }

    pub(crate) async fn change_policy(
        &self,
        topic: &Topic,
        set: &Policy,
        reset: &[PolicySetting],
    ) -> Result<(), Problem> {
        let topic = self.names.stored_topic(topic)?;
        self.answer(self.app.unscoped().admin.topic(&topic).change_policy(set, reset).await)
    }

    /// By Redis's clock.
    pub(crate) async fn now(&self) -> Result<UnixMillis, Problem> {
        let shards = self.app.unscoped().admin.shards();
        let first = shards.overview_of(&[ShardId::new(0)]).await.pop();
        Ok(self.answer(first.expect("each shard has one answer"))?.now.millis())
    }
}
