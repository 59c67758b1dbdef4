//! Pages of messages.
//!
//! A cursor names the topic of the page's last message. So no page of a tenant ends with a message of somebody else, which a
//! program with a login to Redis may have put into a group of the tenant.

use super::Scope;
use crate::problem::Problem;
use delayq::admin::{ListCursor, ListState, Listed, Listing, TimeRange};
use delayq::{Members, Topic};

/// What a page lists.
pub(crate) enum Paged {
    Topic(Topic, ListState, TimeRange),
    Group(Members),
}

// === impl Scope ===

impl Scope {
    /// At most `limit` messages, and the cursor of the next page.
    pub(crate) async fn page(
        &self,
        paged: &Paged,
        after: Option<&str>,
        limit: usize,
    ) -> Result<(Vec<Listed>, Option<String>), Problem> {
        let (mut all, mut after) = (Vec::new(), after.map(str::to_owned));
        loop {
            let most = self.most_of(limit - all.len());
            self.step(most).await?;
            let (messages, next) = self.page_of(paged, after.as_deref(), most).await?;
            all.extend(messages);
            if next.is_none() || all.len() >= limit {
                return Ok((all, next));
            }
            after = next;
        }
    }

    /// By one call, or by several if messages of others are among the page's.
    async fn page_of(
        &self,
        paged: &Paged,
        after: Option<&str>,
        limit: usize,
    ) -> Result<(Vec<Listed>, Option<String>), Problem> {
        let paged = self.stored_paged(paged)?;
        let mut after = after.map(|text| self.stored_cursor(text)).transpose()?;
        let mut most = limit;
        loop {
            let page = self.app.unscoped().admin.page(paged.listing(), after.as_ref(), most).await;
            let page = self.answer(page)?;
            let all = page.messages.len();
            let shown: Vec<Option<Listed>> =
                page.messages.into_iter().map(|listed| self.names.shown(listed)).collect();
            let own = shown.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
            match page.next {
                Some(next) if own == 0 && all > 0 => (after, most) = (Some(next), limit),
                Some(_) if own < all => most = own,
                next => {
                    let next = next.map(|next| self.shown_cursor(&next));
                    return Ok((shown.into_iter().flatten().collect(), next));
                }
            }
        }
    }

    fn stored_paged(&self, paged: &Paged) -> Result<Paged, Problem> {
        Ok(match paged {
            Paged::Topic(topic, state, range) => {
                Paged::Topic(self.names.stored_topic(topic)?, *state, *range)
            }
            Paged::Group(members) => Paged::Group(self.names.stored_members(members)?),
        })
    }

    fn stored_cursor(&self, text: &str) -> Result<ListCursor, Problem> {
        let stored = renamed(text, |topic| self.names.stored_topic(&topic.parse().ok()?).ok());
        stored.as_deref().unwrap_or(text).parse().map_err(|why| Problem::invalid("after", why))
    }

    fn shown_cursor(&self, cursor: &ListCursor) -> String {
        let text = cursor.to_string();
        renamed(&text, |topic| self.names.shown_topic(&topic.parse().ok()?)).unwrap_or(text)
    }
}

/// A cursor with another topic: its text has a topic in the third of four parts. `None`: the text is no cursor.
fn renamed(text: &str, topic: impl Fn(&str) -> Option<Topic>) -> Option<String> {
    let mut parts: Vec<&str> = text.splitn(4, ':').collect();
    let topic = topic(parts.get(2)?)?;
    parts[2] = topic.as_str();
    Some(parts.join(":"))
}

// === impl Paged ===

impl Paged {
    fn listing(&self) -> Listing<'_> {
        match self {
            Self::Topic(topic, state, range) => Listing::Topic { topic, state: *state, range: *range },
            Self::Group(Members { group, topic }) => Listing::Group { group, topic: topic.as_ref() },
        }
    }
}
