//! Listings by page, over all shards: a page begins after the last message of the previous page, even if that message
//! is gone.
//!
//! Messages are in the order of time, then of shard, then of the index of the shard; ready messages shard by shard, in
//! the order of the queues.

use super::{Admin, TimeRange};
use crate::calls::Calls;
use crate::error::Error;
use delayq_core::envelope::Envelope;
use delayq_core::id::{Group, Topic};
use delayq_core::limits::MAX_IDS_A_CALL;
use delayq_core::shard::ShardId;
use delayq_core::time::UnixMillis;
use delayq_core::verbs::cursor::Cursor;
use delayq_core::verbs::list::{self, ListPage, ListState, Listed, Query};
use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

/// The messages that are listed.
#[derive(Clone, Copy, Debug)]
pub enum Listing<'l> {
    /// The messages of a topic in one state.
    Topic {
        /// The topic.
        topic: &'l Topic,
        /// The state.
        state: ListState,
        /// The range of due times, lease ends or deaths; without meaning for ready messages.
        range: TimeRange,
    },
    /// The pending messages of a group, by due time.
    Group {
        /// The group.
        group: &'l Group,
        /// Only messages of this topic; `None`: of all topics.
        topic: Option<&'l Topic>,
    },
}

/// The start of a page: after a message of the same listing. The text form has no spaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListCursor {
    at: UnixMillis,
    shard: ShardId,
    topic: Topic,
    /// For a ready message, the entry in the queue; otherwise the stored id, followed by the gen unless a group is
    /// listed.
    entry: Vec<u8>,
}

/// A page of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedPage {
    /// The messages.
    pub messages: Vec<Listed>,
    /// The start of the next page; `None` on the last page.
    pub next: Option<ListCursor>,
}

/// A message, and the time of the message in the listing. An unreadable message gets the time of the previous message.
struct Timed {
    at: UnixMillis,
    listed: Listed,
}

/// A page in progress.
#[derive(Clone, Copy)]
struct Reading<'a> {
    admin: &'a Admin,
    listing: Listing<'a>,
    after: Option<&'a ListCursor>,
    max: usize,
}

// === impl Listing ===

impl Listing<'_> {
    fn descends(&self) -> bool {
        matches!(self, Self::Topic { state: ListState::Dead { newest_first: true }, .. })
    }

    /// Returns the start and the end of the listing.
    fn ends(&self) -> (UnixMillis, UnixMillis) {
        match self {
            Self::Topic { range: TimeRange { from, to }, .. } if self.descends() => (*to, *from),
            Self::Topic { range: TimeRange { from, to }, .. } => (*from, *to),
            Self::Group { .. } => (TimeRange::ALL.from, TimeRange::ALL.to),
        }
    }

    /// Returns the time of a message in the listing.
    fn time_of(&self, envelope: &Envelope) -> UnixMillis {
        match self {
            Self::Topic { state: ListState::Leased | ListState::Dead { .. }, .. } => envelope.at,
            _ => envelope.due,
        }
    }

    /// Returns true if the entries of the index begin with the number of the topic.
    fn is_numbered(&self) -> bool {
        matches!(self, Self::Group { .. } | Self::Topic { state: ListState::Leased, .. })
    }

    fn cursor_behind(&self, Timed { at, listed }: &Timed) -> ListCursor {
        let mut entry = listed.target().stored().into_owned();
        if matches!(self, Self::Topic { .. }) {
            // An unreadable message has no gen: the cursor is after all entries of that id.
            let gen_of = |envelope: &Envelope| envelope.generation;
            entry.extend(listed.envelope.as_ref().map_or(u32::MAX, gen_of).to_be_bytes());
        }
        ListCursor { at: *at, shard: listed.shard, topic: listed.topic.clone(), entry }
    }

    /// Returns the first `max` messages of all shards, by time and shard.
    fn page(&self, mut all: Vec<Timed>, max: usize) -> ListedPage {
        all.sort_by(|one, other| {
            let by_time = one.at.cmp(&other.at);
            let by_time = if self.descends() { by_time.reverse() } else { by_time };
            by_time.then(one.listed.shard.cmp(&other.listed.shard))
        });
        let more = all.len() > max;
        all.truncate(max);
        let next = all.last().filter(|_| more).map(|last| self.cursor_behind(last));
        ListedPage { messages: all.into_iter().map(|timed| timed.listed).collect(), next }
    }
}

// === impl ListCursor ===

impl fmt::Display for ListCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}:", self.at, self.shard, self.topic)?;
        self.entry.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl FromStr for ListCursor {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parse = || {
            let mut parts = text.splitn(4, ':');
            let at = UnixMillis::new(parts.next()?.parse().ok()?);
            let shard = ShardId::new(parts.next()?.parse().ok()?);
            let topic = parts.next()?.parse().ok()?;
            let hex = parts.next()?.as_bytes();
            let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
            let entry = hex.chunks(2).map(byte).collect::<Option<Vec<u8>>>()?;
            (at <= UnixMillis::MAX && hex.len().is_multiple_of(2)).then_some(Self { at, shard, topic, entry })
        };
        parse().ok_or_else(|| "not a page token of a listing".to_owned())
    }
}

// === impl Admin ===

impl Admin {
    /// Returns a page of a listing: at most `max` messages after `after`. A message that enters the listing before that
    /// point is not shown by later pages; every message that stays is shown.
    ///
    /// # Errors
    /// Redis cannot be used.
    pub async fn page(
        &self,
        listing: Listing<'_>,
        after: Option<&ListCursor>,
        max: usize,
    ) -> Result<ListedPage, Error> {
        if let Listing::Topic { range, .. } = listing {
            range.check()?;
        }
        let reading = Reading { admin: self, listing, after, max };
        let mut page = match listing {
            Listing::Topic { topic, state: ListState::Ready, .. } => reading.of_queues(topic).await?,
            _ => listing.page(reading.timed().await?, max),
        };
        let envelopes = page.messages.iter_mut().filter_map(|listed| listed.envelope.as_mut().ok());
        self.client.payloads.restore_all(envelopes).await;
        Ok(page)
    }
}

// === impl Reading ===

impl Reading<'_> {
    /// Returns the first messages of each shard, one more than the page has.
    async fn timed(self) -> Result<Vec<Timed>, Error> {
        let (mut all, mut through) = (Vec::new(), Vec::new());
        let mut every = self.admin.every_shard().await?;
        let mut next_shard = || match self.listing {
            Listing::Topic { .. } => every.next(),
            Listing::Group { group, .. } => {
                let shard = self.admin.client.calls.shared_layout().next_shard_of(group, &through)?;
                through.push(shard);
                Some(shard)
            }
        };
        while let Some(shard) = next_shard() {
            let mut next = self.start(shard).await?;
            let mut left = self.max.saturating_add(1);
            while let Some(cursor) = next.filter(|_| left > 0) {
                let mut at = cursor.at();
                let page = self.shard_page(shard, &cursor, left.min(MAX_IDS_A_CALL) as u16).await?;
                left = left.saturating_sub(page.messages.len());
                all.extend(page.messages.into_iter().map(|listed| {
                    at = listed.envelope.as_ref().map_or(at, |envelope| self.listing.time_of(envelope));
                    Timed { at, listed }
                }));
                next = page.next;
            }
        }
        Ok(all)
    }

    /// Returns the start of a shard's part of a page; `None`: the shard has no further messages.
    async fn start(self, shard: ShardId) -> Result<Option<Cursor>, Error> {
        let Some(after) = self.after else { return Ok(Some(Cursor::from(self.listing.ends().0))) };
        let at = after.at.get();
        let past = if self.listing.descends() { at.checked_sub(1) } else { at.checked_add(1) };
        Ok(match shard.cmp(&after.shard) {
            Ordering::Greater => Some(Cursor::from(after.at)),
            Ordering::Equal if self.listing.is_numbered() => self.numbered(shard, after).await?,
            Ordering::Equal => Some(Cursor::behind(after.at, after.entry.clone())),
            Ordering::Less => past.map(UnixMillis::new).filter(|&at| at <= UnixMillis::MAX).map(Cursor::from),
        })
    }

    /// Returns the cursor in an index whose entries begin with the number of the topic in the shard.
    async fn numbered(self, shard: ShardId, after: &ListCursor) -> Result<Option<Cursor>, Error> {
        let mut hget = redis::cmd("HGET");
        hget.arg(self.admin.client.calls.keys().meta(shard))
            .arg([b"topic:", &*after.topic.as_bytes()].concat());
        let number: Option<String> =
            self.admin.client.calls.link_of(shard).await?.query("HGET", &hget).await?;
        Ok(Some(match number {
            Some(number) => Cursor::behind(after.at, [number.as_bytes(), b":", &after.entry].concat()),
            // The topic was deleted, with all entries.
            None => Cursor::from(after.at),
        }))
    }

    async fn shard_page(self, shard: ShardId, from: &Cursor, limit: u16) -> Result<ListPage, Error> {
        match self.listing {
            Listing::Topic { topic, state, .. } => {
                let query = Query { topic, state, to: self.listing.ends().1 };
                list_page(&self.admin.client.calls, shard, query, (from, limit)).await
            }
            Listing::Group { group, topic } => {
                let read = |reply| list::read_group(reply, shard);
                let (mut page, _) =
                    self.admin.client.calls.ask(list::group(shard, group, from, limit), read).await?;
                page.messages.retain(|listed| topic.is_none_or(|topic| listed.topic == *topic));
                Ok(page)
            }
        }
    }

    /// Reads a page of the ready queues of a topic, one shard after the other.
    async fn of_queues(self, topic: &Topic) -> Result<ListedPage, Error> {
        let query = Query { topic, state: ListState::Ready, to: UnixMillis::MAX };
        let (mut messages, mut end) = (Vec::new(), None);
        let mut shards = self.admin.every_shard().await?;
        while let Some(shard) = shards.next() {
            let mut next = match self.after.map(|after| (after, shard.cmp(&after.shard))) {
                Some((_, Ordering::Less)) => None,
                Some((after, Ordering::Equal)) => Some(Cursor::behind(after.at, after.entry.clone())),
                _ => Some(Cursor::from(UnixMillis::new(0))),
            };
            while let Some(cursor) = next {
                let limit = self.max.saturating_sub(messages.len()).clamp(1, MAX_IDS_A_CALL) as u16;
                let page = list_page(&self.admin.client.calls, shard, query, (&cursor, limit)).await?;
                if end.is_some() && !page.messages.is_empty() {
                    return Ok(ListedPage { messages, next: end });
                }
                messages.extend(page.messages);
                if messages.len() == self.max && end.is_none() {
                    end = page.next.as_ref().map(|next| ListCursor {
                        at: next.at(),
                        shard,
                        topic: topic.clone(),
                        entry: next.entry().to_vec(),
                    });
                }
                next = page.next;
            }
        }
        Ok(ListedPage { messages, next: None })
    }
}

/// Reads one page of the messages of a topic in one shard: at most `limit` messages.
pub(super) async fn list_page(
    calls: &Calls,
    shard: ShardId,
    query: Query<'_>,
    (from, limit): (&Cursor, u16),
) -> Result<ListPage, Error> {
    let read = |reply| list::read_topic(reply, shard, query.topic);
    calls.ask(list::topic(shard, query, from, limit), read).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_read_back_and_what_is_none_is_refused() {
        let cursor = ListCursor {
            at: UnixMillis::new(1_800_000_000_000),
            shard: ShardId::new(3),
            topic: Topic::new("a/b").unwrap(),
            entry: vec![0, b':', 0xff],
        };
        assert_eq!(cursor.to_string(), "1800000000000:3:a/b:003aff");
        assert_eq!(cursor.to_string().parse(), Ok(cursor));
        for bad in
            ["", "1", "1:2:t", "1:2:t:0", "1:2:t:0g", "1:2:a b:00", "9007199254740992:0:t:00", "1:x:t:00"]
        {
            assert!(bad.parse::<ListCursor>().is_err(), "{bad}");
        }
    }
}
