//! Gives new shards the settings and the paused groups of the topics, as the first shard has them.

use super::ShardsAdmin;
use super::growing::SHARDS_A_CALL;
use crate::admin::topics_in;
use crate::error::Error;
use delayq_core::call::Call;
use delayq_core::id::{Group, Topic};
use delayq_core::layout::Layout;
use delayq_core::limits::MAX_IDS_A_CALL;
use delayq_core::policy::{TopicSettings, full_settings};
use delayq_core::reply::Value;
use delayq_core::shard::ShardId;
use delayq_core::verbs::pause::{self, PausedGroup};
use delayq_core::verbs::settings::{self, configure, describe};
use std::collections::{BTreeMap, BTreeSet};

const FIRST: ShardId = ShardId::new(0);

/// New shards, and the layout under which they are called.
#[derive(Clone, Copy)]
struct Added<'a> {
    shards: &'a [ShardId],
    target: &'a Layout,
}

// === impl ShardsAdmin ===

impl ShardsAdmin<'_> {
    /// Copies the settings and the paused groups of every topic from the first shard to the new shards, and repeats the
    /// copy if they change meanwhile.
    pub(super) async fn settle_topics(self, target: &Layout, added: &[ShardId]) -> Result<(), Error> {
        let mut given: BTreeMap<Topic, (TopicSettings, BTreeSet<Group>)> = BTreeMap::new();
        loop {
            let mut changed = false;
            for (topic, settings) in self.settings_for(target).await? {
                let paused = self.admin.topic(&topic).paused_groups_in(FIRST).await?;
                let paused = paused.into_iter().map(|paused| paused.group).collect();
                let found = (settings, paused);
                if given.get(&topic) == Some(&found) {
                    continue;
                }
                for shards in added.chunks(SHARDS_A_CALL) {
                    let some = Added { shards, target };
                    self.ask_added(some, |shard| configure(shard, &topic, &found.0)).await?;
                    self.settle_pauses(some, &topic, &found.1).await?;
                }
                given.insert(topic, found);
                changed = true;
            }
            if !changed {
                return Ok(());
            }
        }
    }

    /// Makes `wanted` the paused groups of a topic. An interrupted growth may have left others.
    async fn settle_pauses(
        self,
        added: Added<'_>,
        topic: &Topic,
        wanted: &BTreeSet<Group>,
    ) -> Result<(), Error> {
        let first_pages = self.ask_added(added, |shard| pause::list(shard, topic, None)).await?;
        for (&shard, first) in added.shards.iter().zip(first_pages) {
            let one = Added { shards: &[shard], ..added };
            let had = self.paused_in(one, topic, pause::read_list(first)?).await?;
            let changes = [(true, wanted.difference(&had)), (false, had.difference(wanted))];
            for (pauses, groups) in changes {
                for page in groups.collect::<Vec<_>>().chunks(MAX_IDS_A_CALL) {
                    let change = |shard| pause::request(shard, topic, pauses, page.iter().copied());
                    self.ask_added(one, change).await?;
                }
            }
        }
        Ok(())
    }

    /// Returns the paused groups of a topic in one new shard, of which the first page is known.
    async fn paused_in(
        self,
        one: Added<'_>,
        topic: &Topic,
        first: Vec<PausedGroup>,
    ) -> Result<BTreeSet<Group>, Error> {
        let (mut paused, mut is_last) = (first, false);
        while !is_last && !paused.is_empty() && paused.len().is_multiple_of(MAX_IDS_A_CALL) {
            let last = paused.last().cloned();
            let replies = self.ask_added(one, |shard| pause::list(shard, topic, last.as_ref())).await?;
            for reply in replies {
                let page = pause::read_list(reply)?;
                is_last = page.is_empty();
                paused.extend(page);
            }
        }
        Ok(paused.into_iter().map(|paused| paused.group).collect())
    }

    async fn ask_added(
        self,
        Added { shards, target }: Added<'_>,
        call: impl Fn(ShardId) -> Call,
    ) -> Result<Vec<Value>, Error> {
        let calls = shards.iter().map(|&shard| call(shard).under(target.number())).collect();
        self.admin.client.calls.send_plain(calls).await.into_iter().collect()
    }

    /// Returns the settings of each topic in the first shard, with the rate of a shard that has followed.
    async fn settings_for(self, target: &Layout) -> Result<Vec<(Topic, TopicSettings)>, Error> {
        let layouts = self.admin.client.calls.shard_layouts(&[FIRST]).await;
        let layout = layouts.into_iter().next().expect("each shard has one answer")?;
        let has = layout.ok_or(Error::Uninitialised(FIRST))?.layout.shards();
        let part = f64::from(has.get()) / f64::from(target.shards().get());
        let mut all = Vec::new();
        let topics: Vec<Topic> = topics_in(&self.admin.client.calls, FIRST).await?.into_iter().collect();
        for page in topics.chunks(MAX_IDS_A_CALL) {
            let described = self.admin.client.calls.ask(describe(FIRST, page), settings::read).await?;
            for (topic, settings) in page.iter().zip(described) {
                let mut settings = full_settings(settings);
                for (_, rate) in settings.iter_mut().filter(|(field, _)| *field == "rate") {
                    let a_second = std::str::from_utf8(rate).ok().and_then(|text| text.parse::<f64>().ok());
                    *rate = a_second.map_or_else(Vec::new, |rate| format!("{:.9}", rate * part).into_bytes());
                }
                all.push((topic.clone(), settings));
            }
        }
        Ok(all)
    }
}
