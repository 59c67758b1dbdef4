//! Adds shards to a deployment in use: the choice of the target layout, and the steps to get there.
//!
//! ```text
//! look at all ─► add the lowest new shard ─► add the others ─► topics' settings ─► raise the old shards ─► settings again
//!               (of two growths, one gets it)                                     (from then on known)
//! ```
//! The new shards exist before any old shard mentions them. Every step may be repeated, so an interrupted growth is
//! finished by starting the growth again.

use super::ShardsAdmin;
use crate::error::Error;
use delayq_core::layout::Layout;
use delayq_core::shard::{ShardCount, ShardId};
use delayq_core::verbs::deployment::{Grown, ShardLayout};

/// Shards in one pipeline.
pub(super) const SHARDS_A_CALL: usize = 64;

/// The progress of a growth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GrowthStep {
    /// So many of the new shards exist.
    Added {
        /// Number of new shards that exist.
        done: u16,
        /// Number of all new shards.
        of: u16,
    },
    /// So many of the old shards have followed.
    Raised {
        /// Number of old shards that have followed.
        done: u16,
        /// Number of all old shards.
        of: u16,
    },
}

/// The result of a growth.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct GrowthReport {
    /// The present layout of the deployment.
    pub layout: Layout,
    /// Shards that were added by this call, without shards from an earlier, interrupted call.
    pub added: u16,
    /// Shards that were raised by this call.
    pub raised: u16,
}

/// The state before a growth.
struct Found<'a> {
    known: &'a Layout,
    /// The layout of the first shard that a growth would add, if the shard exists already.
    begun: Option<&'a Layout>,
    /// True if an old shard has not followed to the known layout.
    behind: bool,
}

// === impl ShardsAdmin ===

impl ShardsAdmin<'_> {
    /// Adds shards to the deployment during normal use. Producers, consumers, timers and forwarders follow
    /// automatically; pending messages stay in place. `progress` gets each step. An interrupted growth is finished by
    /// another call.
    ///
    /// # Errors
    /// [`Error::Growth`] if there would be fewer shards, or another growth is unfinished; [`Error::Uninitialised`] if a
    /// shard is missing. After an error of the connection the growth may have begun: repeat the call.
    pub async fn grow(
        self,
        to: ShardCount,
        mut progress: impl FnMut(GrowthStep),
    ) -> Result<GrowthReport, Error> {
        let (known, layouts) = self.look_at_layouts().await?;
        let next = ShardId::new(known.shards().get());
        let calls = &self.admin.client.calls;
        let begun = match calls.nodes().has_node(next) {
            true => calls.shard_layouts(&[next]).await.pop().expect("each shard has one answer")?,
            // The map ends with the last shard of the deployment.
            false => None,
        };
        let behind = layouts.iter().any(|found| found.layout != known);
        let begun = begun.as_ref().map(|found| &found.layout);
        let target = target(&Found { known: &known, begun, behind }, to).map_err(Error::Growth)?;
        let mut report = GrowthReport { layout: target.clone(), added: 0, raised: 0 };
        let Some((_, earlier)) = target.counts().split_last() else { return Ok(report) };
        let Some(before) = earlier.last() else { return Ok(report) };

        let added: Vec<ShardId> = target.shards().shards().skip(before.get().into()).collect();
        if self.admin.client.nodes().is_some() {
            // Before any shard is added: a new shard may have no node, or be at another node.
            calls.certain_layouts(&added).await?;
        }
        let of = target.shards().get() - before.get();
        // Alone: the caller that creates the first shard may continue. A concurrent growth finds the shard already
        // created.
        report.added =
            self.raise_all(&added[..1], &target, |done| progress(GrowthStep::Added { done, of })).await?;
        report.added += self
            .raise_all(&added[1..], &target, |done| progress(GrowthStep::Added { done: done + 1, of }))
            .await?;
        self.settle_topics(&target, &added).await?;

        let old: Vec<ShardId> = before.shards().collect();
        let of = before.get();
        report.raised =
            self.raise_all(&old, &target, |done| progress(GrowthStep::Raised { done, of })).await?;
        self.admin.client.calls.shared_layout().learn(&target);
        self.settle_topics(&target, &added).await?;
        self.admin.identify().await?;
        match self.look_at_layouts().await? {
            (known, found) if found.iter().all(|found| found.layout == known) => Ok(report),
            _ => {
                Err(Error::Growth("some shards do not know the new count yet: repeat the growth".to_owned()))
            }
        }
    }

    /// Reads the layouts that all shards record, and the present layout as known by this client and the first shard.
    async fn look_at_layouts(self) -> Result<(Layout, Vec<ShardLayout>), Error> {
        self.admin.client.calls.layout().await?;
        let mut found: Vec<ShardLayout> = Vec::new();
        loop {
            let known = self.admin.client.calls.known().layout;
            let left: Vec<ShardId> = known.shards().shards().skip(found.len()).take(SHARDS_A_CALL).collect();
            if left.is_empty() {
                return Ok((known, found));
            }
            for (&shard, layout) in left.iter().zip(self.admin.client.calls.shard_layouts(&left).await) {
                let layout = layout?.ok_or(Error::Uninitialised(shard))?;
                // A growth by another caller may be in progress.
                self.admin.client.calls.shared_layout().learn(&layout.layout);
                found.push(layout);
            }
        }
    }

    /// Raises or adds shards. Returns the number of shards that changed.
    async fn raise_all(
        self,
        shards: &[ShardId],
        target: &Layout,
        mut progress: impl FnMut(u16),
    ) -> Result<u16, Error> {
        let (mut changed, mut done) = (0, 0);
        for some in shards.chunks(SHARDS_A_CALL) {
            for answer in self.admin.client.calls.raise(some, target).await {
                changed += u16::from(matches!(answer?, Grown::Created | Grown::Raised));
                done += 1;
            }
            progress(done);
        }
        Ok(changed)
    }
}

/// Returns the target layout of a growth, or the reason for a refusal.
fn target(found: &Found<'_>, to: ShardCount) -> Result<Layout, String> {
    let Found { known, begun, behind } = found;
    let now = known.shards();
    if let Some(begun) = begun {
        return match begun {
            begun if !begun.continues(known) => {
                Err(format!("shard {now} already exists with shard counts {begun} instead of {known}"))
            }
            begun if begun.shards() != to => Err(unfinished(begun.shards())),
            begun => Ok((*begun).clone()),
        };
    }
    if to == now {
        return Ok((*known).clone());
    }
    if *behind {
        return Err(unfinished(now));
    }
    known
        .grown_to(to)
        .ok_or_else(|| format!("there are already {now} shards, and the shard count can only grow"))
}

fn unfinished(to: ShardCount) -> String {
    format!("a growth to {to} shards is unfinished: finish it first, by growing to {to}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_growth_begins_or_is_finished_or_is_refused_with_the_reason() {
        let layout = |text: &str| text.parse::<Layout>().unwrap();
        for (known, begun, behind, to, expected) in [
            ("64", None, false, 128, Ok("64,128")),
            ("64", None, false, 64, Ok("64")),
            ("64,128", None, true, 128, Ok("64,128")),
            ("64", Some("64,128"), false, 128, Ok("64,128")),
            ("64,128", Some("64,128,256"), false, 256, Ok("64,128,256")),
            ("64", None, false, 32, Err("can only grow")),
            ("64,128", None, true, 256, Err("finish it first, by growing to 128")),
            ("64", Some("64,128"), false, 96, Err("finish it first, by growing to 128")),
            ("64", Some("64,128"), false, 64, Err("finish it first, by growing to 128")),
            ("64", Some("96,128"), false, 128, Err("instead of 64")),
        ] {
            let (known, begun) = (layout(known), begun.map(layout));
            let found = Found { known: &known, begun: begun.as_ref(), behind };
            match (target(&found, ShardCount::new(to).unwrap()), expected) {
                (Ok(target), Ok(expected)) => assert_eq!(target, layout(expected)),
                (Err(why), Err(expected)) => assert!(why.contains(expected), "{why}"),
                (got, expected) => panic!("{known} to {to}: {got:?}, not {expected:?}"),
            }
        }
    }
}
