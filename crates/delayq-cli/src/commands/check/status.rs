//! The status of a check, in the words of Nagios plugins.

use crate::output::Judgement;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Status {
    Ok,
    Warning,
    Critical,
    Unknown,
}

// === impl Status ===

impl Status {
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Ok => "OK",
            Self::Warning => "WARNING",
            Self::Critical => "CRITICAL",
            Self::Unknown => "UNKNOWN",
        }
    }

    pub(super) const fn code(self) -> u8 {
        match self {
            Self::Ok => 0,
            Self::Warning => 1,
            Self::Critical => 2,
            Self::Unknown => 3,
        }
    }
}

impl From<Judgement> for Status {
    fn from(judgement: Judgement) -> Self {
        match judgement {
            Judgement::Good => Self::Ok,
            Judgement::Warning => Self::Warning,
            Judgement::Bad => Self::Critical,
        }
    }
}
