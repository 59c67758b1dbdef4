//! Pages of messages.
//!
//! A cursor names the topic of the page's last message. So no page of a tenant ends with a message of somebody else, which a
//! program with a login to Redis may have put into a group of the tenant.

use super::Scope;
use crate::problem::Problem;
use delayq::admin::{ListCursor, ListState, Listed, Listing, TimeRange};
use delayq::{Members, Topic};
use std::time::{Duration, Instant};

/// Of a page of several calls: less than any deadline that a client is likely to set.
const MAX_PAGE: Duration = Duration::from_secs(2);

/// What a page lists.
pub(crate) enum Paged {
    Topic(Topic, ListState, TimeRange),
    Group(Members),
}

/// The entries of a page by several calls.
struct Gathered<E> {
    entries: Vec<E>,
    /// Before the first call, the cursor of the request.
    next: Option<String>,
    began: Instant,
}

// === impl Scope ===

impl Scope {
    /// At most `limit` messages, and the cursor of the next page. A page of a tenant takes several turns: one that is refused,
    /// or would take too long, ends the page early.
    pub(crate) async fn page(
        &self,
        paged: &Paged,
        after: Option<&str>,
        limit: usize,
    ) -> Result<(Vec<Listed>, Option<String>), Problem> {
        let mut gathered =
            Gathered { entries: Vec::new(), next: after.map(str::to_owned), began: Instant::now() };
        loop {
            let most = self.most_of(limit - gathered.entries.len());
            if let Err(problem) = self.step(most).await {
                return gathered.refused(problem);
            }
            let page = self.page_of(paged, gathered.next.as_deref(), most).await?;
            if gathered.is_over(page, limit) {
                return Ok((gathered.entries, gathered.next));
            }
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

// === impl Gathered ===

impl<E> Gathered<E> {
    fn is_over(&mut self, (entries, next): (Vec<E>, Option<String>), limit: usize) -> bool {
        self.entries.extend(entries);
        self.next = next;
        self.next.is_none() || self.entries.len() >= limit || self.began.elapsed() > MAX_PAGE
    }

    /// A later turn was refused: the page ends with what it has.
    fn refused(self, problem: Problem) -> Result<(Vec<E>, Option<String>), Problem> {
        if self.entries.is_empty() { Err(problem) } else { Ok((self.entries, self.next)) }
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::Kind;

    #[test]
    fn a_page_whose_later_turn_is_refused_ends_with_what_it_has_and_a_cursor() {
        let new = || Gathered { entries: Vec::new(), next: Some("0".to_owned()), began: Instant::now() };
        let no_turn = || Problem::new(Kind::OverQuota, "no turn");
        assert_eq!(new().refused(no_turn()).unwrap_err().kind(), Kind::OverQuota);
        let mut gathered = new();
        assert!(!gathered.is_over((vec![1, 2], Some("2".to_owned())), 5));
        assert_eq!(gathered.refused(no_turn()).unwrap(), (vec![1, 2], Some("2".to_owned())));
        let mut gathered = new();
        assert!(!gathered.is_over((vec![1, 2], Some("2".to_owned())), 4));
        assert!(gathered.is_over((vec![3, 4], Some("4".to_owned())), 4));
        assert!(new().is_over((vec![1], None), 4));
        let long_ago = Instant::now().checked_sub(2 * MAX_PAGE).unwrap();
        assert!(Gathered { began: long_ago, ..new() }.is_over((vec![1], Some("1".to_owned())), 4));
    }
}
