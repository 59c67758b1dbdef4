//! The outcome of a write, by Redis's answer: a pure decision.

use delayq::{CancelOutcome, Error, Fate, PutOutcome, RescheduleOutcome};

/// The outcome of a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Carried out, now or before.
    Done,
    /// Impossible to carry out: set aside with this reason.
    Reject(String),
    /// Redis cannot be used: the write stays and is retried, like all others; with the fate and the reason.
    Hold(Fate, String),
    /// Redis can be used, but not for this write, which rests alone; with the fate and the reason.
    Rest(Fate, String),
    /// Not tried: an older write of the message rests, or an earlier write is held.
    Untried,
}

/// The reason of a record that rests behind an older one.
pub(crate) const BEHIND: &str = "an older record of the same message is resting";

// === impl Outcome ===

impl Outcome {
    /// Rests, because an older write of the message rests.
    pub(crate) fn behind() -> Self {
        Self::Rest(Fate::NotApplied, BEHIND.to_owned())
    }

    /// True if Redis was asked.
    pub(crate) fn is_tried(&self) -> bool {
        !matches!(self, Self::Untried) && !matches!(self, Self::Rest(_, why) if why == BEHIND)
    }

    /// True if the write is never tried again.
    pub(crate) fn is_over(&self) -> bool {
        matches!(self, Self::Done | Self::Reject(_))
    }
}

pub(crate) fn of_put(answer: &PutOutcome) -> Outcome {
    match answer {
        PutOutcome::Stored(_) | PutOutcome::Ready(_) | PutOutcome::Again { .. } | PutOutcome::Exists(..) => {
            Outcome::Done
        }
        PutOutcome::Changed(state, _) => Outcome::Reject(format!("the message is not as expected: {state}")),
        PutOutcome::Unknown => Outcome::Reject("no message is known that could be as expected".to_owned()),
        PutOutcome::Conflict(..) => Outcome::Reject("the id is taken by another message".to_owned()),
        PutOutcome::Newer => Outcome::Reject("the id is taken by a message of a later format".to_owned()),
        PutOutcome::Malformed => {
            Outcome::Reject("the id is taken by bytes that are not a message".to_owned())
        }
        PutOutcome::Leased => Outcome::Rest(Fate::NotApplied, "the message to replace is leased".to_owned()),
        PutOutcome::Stale => Outcome::Reject(
            "stale: the topic refuses repeats, and the outcome of the first try may be forgotten".to_owned(),
        ),
        PutOutcome::Refused(why) => of_script("refused", why),
        PutOutcome::Spooled => Outcome::Hold(Fate::NotApplied, "spooled again".to_owned()),
    }
}

pub(crate) fn of_cancel(answer: &CancelOutcome) -> Outcome {
    match answer {
        CancelOutcome::Spooled => Outcome::Hold(Fate::NotApplied, "spooled again".to_owned()),
        CancelOutcome::Failed(why) => of_script("failed", why),
        _ => Outcome::Done,
    }
}

pub(crate) fn of_reschedule(answer: &RescheduleOutcome) -> Outcome {
    match answer {
        RescheduleOutcome::Moved { .. } => Outcome::Done,
        RescheduleOutcome::Changed(due) => Outcome::Reject(format!("the message is now due at {due} ms")),
        RescheduleOutcome::Leased => Outcome::Reject("too late: the message is leased".to_owned()),
        RescheduleOutcome::Dead => Outcome::Reject("too late: the message is dead".to_owned()),
        RescheduleOutcome::Finished(state, _) => Outcome::Reject(format!("too late: the message is {state}")),
        RescheduleOutcome::Unknown => Outcome::Reject("no such message".to_owned()),
        RescheduleOutcome::Spooled => Outcome::Hold(Fate::NotApplied, "spooled again".to_owned()),
        RescheduleOutcome::Refused(why) => of_script("refused", why),
        RescheduleOutcome::Failed(why) => of_script("failed", why),
    }
}

/// Judges a script's refusal of one write. A script passes on the errors of Redis, such as a denied command or a key of the
/// wrong type. Such errors begin with a code in capitals, are no fault of the message, and may be mended; the script may have
/// stopped halfway.
fn of_script(word: &str, why: &str) -> Outcome {
    let code = why.split(' ').next().unwrap_or_default();
    let is_of_redis = !code.is_empty() && code.bytes().all(|byte| byte.is_ascii_uppercase());
    let why = format!("{word}: {why}");
    if is_of_redis { Outcome::Rest(Fate::Unknown, why) } else { Outcome::Reject(why) }
}

/// Only an error of the message itself is final; anything else may be fixed. Replicas or a disk that do not confirm hold up
/// only the topics that ask for confirmations.
pub(crate) fn of_error(error: &Error) -> Outcome {
    match error {
        Error::Message(_) | Error::Name(_) => Outcome::Reject(error.to_string()),
        Error::Unconfirmed { fate, .. } => Outcome::Rest(*fate, error.to_string()),
        _ if error.is_outage() => Outcome::Hold(error.fate(), error.to_string()),
        _ => Outcome::Rest(error.fate(), error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use delayq::{MessageError, State, UnixMillis};

    #[test]
    fn what_is_there_is_done_what_cannot_be_is_rejected_and_an_outage_holds() {
        let at = UnixMillis::new(1);
        let again = PutOutcome::Again { state: State::Delayed, old: at, due: at };
        let done =
            [PutOutcome::Stored(at), PutOutcome::Ready(at), again, PutOutcome::Exists(State::Cancelled, at)];
        assert!(done.iter().all(|outcome| of_put(outcome) == Outcome::Done));
        let rejected = [
            PutOutcome::Conflict(State::Delayed, at),
            PutOutcome::Newer,
            PutOutcome::Malformed,
            PutOutcome::Stale,
            PutOutcome::Refused("due time".to_owned()),
        ];
        assert!(rejected.iter().all(|outcome| matches!(of_put(outcome), Outcome::Reject(_))));
        assert!(matches!(of_put(&PutOutcome::Leased), Outcome::Rest(Fate::NotApplied, _)), "until its ack");
        let outage = Error::Unreachable { address: String::new(), why: String::new() };
        assert!(matches!(of_error(&outage), Outcome::Hold(Fate::NotApplied, _)));
        let lost = Error::NoAnswer { address: String::new(), why: String::new() };
        assert!(matches!(of_error(&lost), Outcome::Hold(Fate::Unknown, _)));
        let shard = Error::Uninitialised(delayq::protocol::ShardId::new(3));
        assert!(matches!(of_error(&shard), Outcome::Rest(Fate::NotApplied, _)));
        let unconfirmed =
            Error::Unconfirmed { durability: String::new(), fate: Fate::Unknown, why: String::new() };
        assert!(matches!(of_error(&unconfirmed), Outcome::Rest(Fate::Unknown, _)));
        assert!(matches!(of_error(&Error::Message(MessageError::Backoff)), Outcome::Reject(_)));
        for (why, rests) in [
            ("ERR The user executing the script can't run this command or subcommand", true),
            ("NOPERM ACL failure in script", true),
            ("WRONGTYPE Operation against a key holding the wrong kind of value", true),
            ("expiry not after the due time", false),
            ("", false),
        ] {
            let settled = of_put(&PutOutcome::Refused(why.to_owned()));
            assert_eq!(matches!(settled, Outcome::Rest(Fate::Unknown, _)), rests, "{why}");
        }
        assert_eq!(of_cancel(&CancelOutcome::Unknown), Outcome::Done);
        assert!(matches!(of_reschedule(&RescheduleOutcome::Unknown), Outcome::Reject(_)));
    }
}
