//! A shard on its own server, driven by actions, with a clock that the test sets.

use crate::action::{Action, Item, Reserve};
use crate::bare_shard::{Answer, BareShard, NOW, scripts_with};
use crate::snapshot::lossy;
use delayq_tests::redis_server::{RedisServer, SharedRedis};

pub(crate) struct Lab {
    pub(crate) server: SharedRedis,
    pub(crate) shard: BareShard,
}

// === impl Lab ===

impl Lab {
    pub(crate) async fn new() -> Self {
        let server = RedisServer::start().await;
        let mut shard = BareShard::create(&server, "p", scripts_with(&[])).await;
        shard.clock_us = Some(NOW * 1000);
        Self { server, shard }
    }

    pub(crate) fn at(&mut self, ms: u64) {
        self.shard.clock_us = Some((NOW + ms) * 1000);
    }

    pub(crate) async fn run(&mut self, action: Action) -> Answer {
        self.shard.call(action.verb(), &action.args()).await
    }

    pub(crate) async fn words(&mut self, action: Action) -> Vec<String> {
        self.run(action).await.unwrap().iter().map(|item| lossy(item)).collect()
    }

    pub(crate) async fn put(&mut self, topic: &str, items: &[Item]) -> Vec<String> {
        let put = Action::Put { topic: topic.into(), items: items.to_vec() };
        self.words(put).await.split_off(1)
    }

    pub(crate) async fn pump(&mut self) -> Vec<String> {
        self.words(Action::Pump { epoch: Some(0), limit: 500 }).await
    }

    pub(crate) async fn reserve(&mut self, topic: &str) -> Vec<Vec<u8>> {
        let reserve = Action::Reserve(Reserve::from(topic, 100, Some(1000)));
        let answer = self.run(reserve).await.unwrap();
        answer.get(9..).unwrap_or_default().chunks(3).map(|one| one[1].clone()).collect()
    }
}

pub(crate) fn item(id: &str, due: impl std::fmt::Display) -> Item {
    Item::new(id.as_bytes(), due)
}

pub(crate) fn grouped(id: &str, due: u64) -> Item {
    Item { expires: Some(NOW + 100_000), ..item(id, due).in_group("g") }
}

pub(crate) fn in_g(id: &str) -> String {
    format!("{id}\u{1f}g")
}
