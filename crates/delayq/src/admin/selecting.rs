//! Selecting messages to act on: every message that was in a selection at one time, page by page.
//!
//! The selection is frozen by a cut: the counter of gens in each shard. No message is put or moved without a new gen, so a
//! message with a later gen is left alone, and a message that was moved by the action is not met again.

mod cursor;
mod cut;

pub use cursor::SelectCursor;
pub use cut::Cut;

use super::TimeRange;
use super::listing::list_page;
use super::operating::OperationsAdmin;
use crate::error::Error;
use delayq_core::envelope::State;
use delayq_core::id::{Group, Topic};
use delayq_core::limits::MAX_IDS_A_CALL;
use delayq_core::shard::ShardId;
use delayq_core::time::UnixMillis;
use delayq_core::verbs::cursor::Cursor;
use delayq_core::verbs::list::{self, ListPage, ListState, Listed, Query};

/// Messages to act on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection {
    /// The topics. Empty: the pending messages of the group, of any topic.
    pub topics: Vec<Topic>,
    /// The group; `None`: any group, and none.
    pub group: Option<Group>,
    /// The state.
    pub state: SelectState,
    /// The range of due times; of dead letters, the range of their deaths.
    pub range: TimeRange,
}

/// The state of selected messages, at the time of the cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SelectState {
    /// Delayed or ready.
    Pending,
    /// Due after the cut.
    Delayed,
    /// Due before the cut.
    Ready,
    /// Dead letters.
    Dead,
}

/// A page of a selection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selected {
    /// The messages, all in one shard.
    pub messages: Vec<Listed>,
    /// Messages that would be in the selection, but were put or moved after the cut.
    pub changed: Vec<Listed>,
    /// The start of the next page; `None` after the last.
    pub next: Option<SelectCursor>,
}

/// One listing of one shard.
#[derive(Clone, Copy)]
enum Part<'s> {
    OfTopic(&'s Topic, ListState),
    OfGroup(&'s Group),
}

// === impl SelectState ===

impl SelectState {
    /// The word of the state.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Delayed => "delayed",
            Self::Ready => "ready",
            Self::Dead => "dead",
        }
    }

    /// Delayed messages become ready while a walk goes on, so the ready queue comes after the buckets.
    const fn lists(self) -> &'static [ListState] {
        match self {
            Self::Pending | Self::Delayed => &[ListState::Delayed, ListState::Ready],
            Self::Ready => &[ListState::Ready],
            Self::Dead => &[ListState::Dead { newest_first: false }],
        }
    }
}

// === impl Selection ===

impl Selection {
    fn parts(&self) -> Vec<Part<'_>> {
        match (&self.group, self.state) {
            (Some(group), state) if state != SelectState::Dead => vec![Part::OfGroup(group)],
            _ => {
                let of_topic =
                    |topic| self.state.lists().iter().map(move |&state| Part::OfTopic(topic, state));
                self.topics.iter().flat_map(of_topic).collect()
            }
        }
    }

    fn holds(&self, listed: &Listed, cut: &Cut) -> bool {
        let Ok(envelope) = &listed.envelope else { return false };
        let is_pending = matches!(envelope.state, State::Delayed | State::Ready);
        let (fits, time) = match self.state {
            SelectState::Pending => (is_pending, envelope.due),
            SelectState::Delayed => (is_pending && envelope.due > cut.at, envelope.due),
            SelectState::Ready => (is_pending && envelope.due <= cut.at, envelope.due),
            SelectState::Dead => (envelope.state == State::Dead, envelope.at),
        };
        fits && (self.range.from..=self.range.to).contains(&time)
            && self.group.as_ref().is_none_or(|group| listed.group.as_ref() == Some(group))
            && (self.topics.is_empty() || self.topics.contains(&listed.topic))
    }
}

// === impl OperationsAdmin ===

impl OperationsAdmin<'_> {
    /// Freezes a selection: messages that are put or moved later are not in the selection.
    ///
    /// # Errors
    /// Redis cannot be used, or a time of the range is most likely in another unit.
    pub async fn cut(self, selection: &Selection) -> Result<Cut, Error> {
        selection.range.check()?;
        self.admin.client.calls.layout().await?;
        let at = self.admin.redis_now().await?;
        let mut cut = Cut { at, gens: Vec::new() };
        let mut every = self.admin.every_shard().await?;
        let of_group = selection.group.as_ref().filter(|_| selection.state != SelectState::Dead);
        let mut through = Vec::new();
        loop {
            let shard = match of_group {
                Some(group) => self.admin.client.calls.shared_layout().next_shard_of(group, &through),
                None => every.next(),
            };
            let Some(shard) = shard else { return Ok(cut) };
            through.push(shard);
            cut.gens.push((shard, self.gen_of(shard).await?));
        }
    }

    /// Returns the next messages of a frozen selection: at most `max`, at most 500, and those of one shard. A page may be empty
    /// before the last.
    ///
    /// # Errors
    /// Redis cannot be used.
    pub async fn select(
        self,
        selection: &Selection,
        cut: &Cut,
        from: &SelectCursor,
        max: usize,
    ) -> Result<Selected, Error> {
        let parts = selection.parts();
        let (Some(&(shard, _)), Some(&part)) = (cut.gens.get(from.shard), parts.get(from.part)) else {
            return Ok(Selected { messages: Vec::new(), changed: Vec::new(), next: None });
        };
        let at = from.at.clone().unwrap_or_else(|| Cursor::from(start(part, selection.range)));
        let page =
            self.part_page(shard, part, selection.range.to, (&at, max.min(MAX_IDS_A_CALL) as u16)).await?;
        // A group is listed beyond the range.
        let due = |listed: &Listed| listed.envelope.as_ref().map_or(UnixMillis::MAX, |envelope| envelope.due);
        let is_past = matches!(part, Part::OfGroup(_))
            && page.messages.last().is_some_and(|last| due(last) > selection.range.to);
        let page_next = page.next.filter(|_| !is_past);
        let all = page.messages.into_iter().filter(|listed| selection.holds(listed, cut));
        let (messages, changed) = all.partition(|listed| cut.is_before(listed));
        let next = match page_next {
            Some(at) => Some(SelectCursor { at: Some(at), ..*from }),
            None if from.part + 1 < parts.len() => {
                Some(SelectCursor { shard: from.shard, part: from.part + 1, at: None })
            }
            None if from.shard + 1 < cut.gens.len() => {
                Some(SelectCursor { shard: from.shard + 1, part: 0, at: None })
            }
            None => None,
        };
        Ok(Selected { messages, changed, next })
    }

    /// Counts a selection without reading messages; `None`: only a walk can tell.
    ///
    /// # Errors
    /// Redis cannot be used.
    pub async fn count(self, selection: &Selection) -> Result<Option<u64>, Error> {
        if selection.range != TimeRange::ALL || selection.group.is_some() {
            return Ok(None);
        }
        let mut count = 0;
        for numbers in self.admin.count(&selection.topics).await? {
            count += match selection.state {
                SelectState::Pending => numbers.delayed + numbers.ready,
                SelectState::Delayed => numbers.delayed,
                SelectState::Ready => numbers.ready,
                SelectState::Dead => numbers.dead,
            };
        }
        Ok(Some(count))
    }

    async fn part_page(
        self,
        shard: ShardId,
        part: Part<'_>,
        to: UnixMillis,
        (at, limit): (&Cursor, u16),
    ) -> Result<ListPage, Error> {
        match part {
            Part::OfTopic(topic, state) => {
                list_page(&self.admin.client.calls, shard, Query { topic, state, to }, (at, limit)).await
            }
            Part::OfGroup(group) => {
                let read = |reply| list::read_group(reply, shard);
                Ok(self.admin.client.calls.ask(list::group(shard, group, at, limit), read).await?.0)
            }
        }
    }

    async fn gen_of(self, shard: ShardId) -> Result<u64, Error> {
        let mut hget = redis::cmd("HGET");
        hget.arg(self.admin.client.calls.keys().meta(shard)).arg("gen");
        let found: Option<u64> = self.admin.client.calls.link_of(shard).await?.query("HGET", &hget).await?;
        Ok(found.unwrap_or(0))
    }
}

/// A ready queue has no order of due times, and a group is listed from its earliest.
const fn start(part: Part<'_>, range: TimeRange) -> UnixMillis {
    match part {
        Part::OfTopic(_, ListState::Ready) => UnixMillis::new(0),
        _ => range.from,
    }
}
