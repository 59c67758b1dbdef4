//! Credits: the number of unsettled messages that a client takes at a time.

use crate::problem::Problem;
use crate::routes::reserve::MAX_MESSAGES;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Credits(u16);

// === impl Credits ===

impl Credits {
    pub(super) fn new(all: u16) -> Result<Self, Problem> {
        match all {
            0..=MAX_MESSAGES => Ok(Self(all)),
            _ => Err(Problem::invalid("credits", format_args!("write 0 to {MAX_MESSAGES}"))),
        }
    }

    pub(super) fn all(self) -> u16 {
        self.0
    }

    /// Adds credits, or takes some away.
    pub(super) fn by(self, more: i32) -> Result<Self, Problem> {
        let all = i32::from(self.0).checked_add(more).and_then(|all| u16::try_from(all).ok());
        let all = all.filter(|all| *all <= MAX_MESSAGES);
        let why = || format!("{more} and the {} of now are not 0 to {MAX_MESSAGES}", self.0);
        all.map(Self).ok_or_else(|| Problem::invalid("credit", why()))
    }

    /// For further messages, beside the taken credits.
    pub(super) fn free(self, taken: usize) -> u16 {
        usize::from(self.0).saturating_sub(taken).try_into().expect("there are at most as many as all")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credits_never_leave_their_limits() {
        let five = Credits::new(5).unwrap();
        assert_eq!((five.by(495).unwrap().all(), five.by(-5).unwrap().all()), (500, 0));
        for (more, why) in
            [(496, "496 and the 5"), (-6, "-6 and the 5"), (i32::MAX, "of now"), (i32::MIN, "of now")]
        {
            let refused = five.by(more).unwrap_err();
            assert!(refused.detail().contains(why), "{}", refused.detail());
        }
        assert!(Credits::new(500).is_ok() && Credits::new(501).is_err());
    }

    #[test]
    fn messages_beyond_lowered_credits_leave_none_free() {
        let two = Credits::new(2).unwrap();
        assert_eq!((two.free(0), two.free(1), two.free(2), two.free(7)), (2, 1, 0, 0));
    }
}
