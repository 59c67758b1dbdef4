//! The words of scripts for one message: whether a word is a success, and what the word means.
//!
//! One table for the outcomes of this crate, for `tests/vectors/protocol.json`, and so for the clients in other languages.

use crate::envelope::State;
use crate::script::Verb;

/// One word of a script's answer for a message.
#[derive(Clone, Copy, Debug)]
pub struct Word {
    /// The word in outcomes.
    pub word: &'static str,
    /// True if the request holds now. `exists` depends on the state: see [`LOST`].
    pub accepted: bool,
    /// What the word means.
    pub means: &'static str,
}

/// The states of an earlier message that is no longer delivered: a put that meets one *exists*, and was not accepted.
pub const LOST: [State; 3] = [State::Cancelled, State::Expired, State::Purged];

const NOT_PENDING: [Word; 4] = [
    no("leased", "a holder has the message, which may still be delivered"),
    no("dead", "the message is a dead letter"),
    no("finished", "the message has finished; the state says how"),
    no("unknown", "no such message is known"),
];
const FAILED: Word = no("failed", "the stored message is unreadable; the reason says why");
const REFUSED: Word = no("refused", "the values of the request do not fit the message; the reason says why");
const READY: Word = yes("ready", "the message is due");
const DELAYED: Word = yes("delayed", "the message waits for its due time");
const LEASE_LOST: Word = no("expired", "the lease has ended, and another holder may have the message");
const BURIED: Word = yes("buried", "the message is a dead letter now");

/// The words of each script that answers for every message.
pub const WORDS: [(Verb, &[Word]); 8] = [
    (
        Verb::Put,
        &[
            yes("stored", "the message is stored"),
            yes("ready", "the message is stored, and due"),
            yes(
                "again",
                "the put was merged with the message that it met, or is due behind it; the answer says when",
            ),
            yes("exists", "the same message is known; not accepted if cancelled, expired or purged"),
            no("conflict", "the id is taken by another message"),
            no("changed", "the message to replace is not as expected; the state and the time say how it is"),
            NOT_PENDING[3],
            no("leased", "a holder has the message that the put would replace"),
            no("stale", "a repeat whose first try may have been forgotten; the topic refuses such repeats"),
            REFUSED,
        ],
    ),
    (
        Verb::Cancel,
        &[
            yes("cancelled", "the message will not be delivered"),
            no("leased", "a holder has the message: this attempt may deliver it, and none follows"),
            NOT_PENDING[1],
            NOT_PENDING[2],
            NOT_PENDING[3],
            FAILED,
        ],
    ),
    (
        Verb::Reschedule,
        &[
            DELAYED,
            READY,
            no("changed", "the message is due at another time than expected"),
            NOT_PENDING[0],
            NOT_PENDING[1],
            NOT_PENDING[2],
            NOT_PENDING[3],
            REFUSED,
            FAILED,
        ],
    ),
    (Verb::Extend, &[yes("extended", "the lease has a later end"), LEASE_LOST, FAILED]),
    (
        Verb::Ack,
        &[
            yes("delivered", "the message has finished, and its next message, if one was given, is put"),
            yes(
                "cancelled",
                "the message was cancelled while leased, and has finished: its next message is not put",
            ),
            LEASE_LOST,
            no(
                "failed",
                "the stored message is unreadable, or the next message cannot be put; the reason says why",
            ),
        ],
    ),
    (
        Verb::Release,
        &[
            DELAYED,
            READY,
            BURIED,
            yes("cancelled", "the message was cancelled while leased, and has finished"),
            yes("expired-message", "the message has expired, and has finished"),
            LEASE_LOST,
            FAILED,
        ],
    ),
    (Verb::Bury, &[BURIED, LEASE_LOST, FAILED]),
    (
        Verb::Replay,
        &[READY, DELAYED, no("not-dead", "the message is no dead letter"), NOT_PENDING[3], REFUSED, FAILED],
    ),
];

const fn yes(word: &'static str, means: &'static str) -> Word {
    Word { word, accepted: true, means }
}

const fn no(word: &'static str, means: &'static str) -> Word {
    Word { word, accepted: false, means }
}

/// True if the word is a success: of one script as of every other.
pub(super) fn is_accepted(word: &str) -> bool {
    WORDS.iter().flat_map(|(_, words)| *words).any(|one| one.word == word && one.accepted)
}
