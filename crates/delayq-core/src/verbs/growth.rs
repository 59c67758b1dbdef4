//! `layout`, `init`: what shards know of their deployment, and making them.

use crate::{
    Client, Error, Layout, ShardId,
    follow::never_so,
    layout::Learned,
    link::Call,
    reply::{Reply, Words, text_of},
    script::Verb,
};
use redis::Value;
use serde::Serialize;

/// What a shard knows of its deployment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ShardLayout {
    /// The shard counts of the deployment, as it knows them.
    #[serde(serialize_with = "crate::layout::serialize")]
    pub layout: Layout,
    /// The messages that it holds: pending and dead ones of its first 100 topics.
    pub messages: u64,
}

// === impl Client ===

impl Client {
    /// What shards know of their deployment, all in one round trip; `None`: the shard does not exist.
    pub async fn shard_layouts(&self, shards: &[ShardId]) -> Vec<Result<Option<ShardLayout>, Error>> {
        let calls: Vec<Call> =
            shards.iter().map(|&shard| self.link().call(Verb::Layout, shard, self.known().word())).collect();
        let replies = self.link().send_all(&calls).await;
        shards.iter().zip(replies).map(|(&shard, reply)| shard_layout(shard, reply?)).collect()
    }

    /// The deployment's layout: as Redis tells it, once it was asked; before that it is asked now. The configured
    /// number of shards is only right if it was ever that of the deployment.
    ///
    /// # Errors
    /// [`Error::Uninitialised`] where there is no deployment, [`Error::Deployment`] where it never had the configured
    /// number of shards; a Redis that cannot be used.
    pub async fn layout(&self) -> Result<Layout, Error> {
        if !self.known().asked {
            let first = ShardId::new(0);
            let mut found = self.shard_layouts(&[first]).await;
            let found = found.pop().expect("one answer for one shard")?;
            let found = found.ok_or(Error::Uninitialised(first))?.layout;
            if self.knowledge().learn(&found) == Learned::NeverSo {
                return Err(never_so(&self.known(), &found));
            }
        }
        Ok(self.known().layout)
    }

    /// Creates the shards of the deployment that do not exist, and checks those that do.
    ///
    /// # Errors
    /// [`Error::Deployment`] where a shard was created with other numbers, or the deployment never had the configured
    /// number of shards.
    pub async fn init(&self) -> Result<u16, Error> {
        let layout = match self.layout().await {
            Ok(layout) => layout,
            Err(Error::Uninitialised(_)) => self.known().layout,
            Err(error) => return Err(error),
        };
        let shards: Vec<ShardId> = layout.shards().shards().collect();
        let counts = layout.to_string();
        let init = |&shard: &ShardId| {
            self.link().call(Verb::Init, shard, layout.number()).arg(shard.get()).arg(&counts)
        };
        let calls: Vec<Call> = shards.iter().map(init).collect();
        let mut created = 0;
        for (shard, reply) in shards.into_iter().zip(self.link().send_all(&calls).await) {
            let text = text_of(Verb::Init, reply?)?;
            let mut words = Words::new(&text);
            match words.word() {
                "created" => created += 1,
                "exists" => {}
                "differs" => return Err(Error::Deployment(difference(shard, &layout, &mut words))),
                _ => return Err(Error::Protocol { script: Verb::Init.name(), answer: text }),
            }
        }
        self.knowledge().learn(&layout);
        Ok(created)
    }
}

fn difference(shard: ShardId, layout: &Layout, words: &mut Words<'_>) -> String {
    let (found, number, counts) = (words.word(), words.word(), words.word());
    format!(
        "shard {shard} was created with layout {found} as number {number} of {counts}; \
         this process is configured for layout {} and {layout} shards",
        layout.number()
    )
}

fn shard_layout(shard: ShardId, reply: Value) -> Result<Option<ShardLayout>, Error> {
    let mut reply = Reply::new(Verb::Layout, reply)?;
    if reply.is_empty() {
        return Ok(None);
    }
    let (number, own, counts) = (reply.number()?, reply.number()?, reply.text()?);
    let layout = counts.parse::<Layout>().ok().filter(|layout| u64::from(layout.number()) == number);
    let layout = layout.filter(|_| own == u64::from(shard.get())).ok_or_else(|| {
        Error::Deployment(format!(
            "shard {shard} has layout {number} as number {own} with shard counts {counts}"
        ))
    })?;
    Ok(Some(ShardLayout { layout, messages: reply.number()? }))
}
