//! Several messages of one series: the same message at several dates, under one handle.

use crate::id::{Group, MessageId, OwnId};
use crate::message::{Due, Message, MessageError};

/// Maximum due times of a series, which are put in one call.
const MAX_DUES: usize = 500;
/// Maximum bytes of the id of a series: the ids of its messages have a number behind it.
const MAX_ID: usize = 124;

impl Message {
    /// The messages of a series, one for each due time: `ID/1`, `ID/2` and so on, in the group `ID`. The group is the handle:
    /// listing, shifting and cancelling the group concerns the pending messages of the series.
    ///
    /// # Errors
    /// [`MessageError::Series`]: the message has a group, or no own id, an id of more than 124 bytes or an id with `~` at the start;
    /// or the number of due times is not 1 to 500.
    pub fn series(self, dues: impl IntoIterator<Item = Due>) -> Result<Vec<Self>, MessageError> {
        let dues: Vec<Due> = dues.into_iter().collect();
        if !(1..=MAX_DUES).contains(&dues.len()) {
            return Err(MessageError::Series("has 1 to 500 due times"));
        }
        if self.group.is_some() {
            return Err(MessageError::Series("is a group of its own: leave the group out"));
        }
        let id = match &self.id {
            Some(MessageId::Own(id)) if id.as_str().len() <= MAX_ID && !id.as_str().starts_with('~') => {
                id.as_str().to_owned()
            }
            _ => {
                let why = "needs an id of your own, of 1 to 124 bytes that do not begin with ~";
                return Err(MessageError::Series(why));
            }
        };
        let message = |(n, due): (usize, Due)| {
            let own = OwnId::new(format!("{id}/{n}")).expect("an id and a number are an id");
            let group = Group::new(id.as_str()).expect("an id has the form of a group");
            self.clone().with_id(own.into()).with_group(group).due(due)
        };
        Ok((1..).zip(dues).map(message).collect())
    }
}
