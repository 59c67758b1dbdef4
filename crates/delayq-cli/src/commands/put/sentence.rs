//! The answer to a put, as a sentence.

use crate::output::time;
use delayq::{Put as Answer, PutOutcome, State};

pub(super) fn sentence(answer: &Answer) -> String {
    let id = &answer.reference.id;
    match &answer.outcome {
        PutOutcome::Stored(due) => format!("stored {id}, due {}", time(*due)),
        PutOutcome::Ready(due) => format!("stored {id}, due {}: it is ready", time(*due)),
        PutOutcome::Again { state: State::Leased, due, .. } => {
            format!("{id} is leased; put behind that, due {}", time(*due))
        }
        PutOutcome::Again { state: state @ (State::Delivered | State::Dead), old, due } => {
            format!("{id} was due {} and is {state}; put behind that, due {}", time(*old), time(*due))
        }
        PutOutcome::Again { old, due, .. } if due == old => {
            format!("{id} was already pending, still due {}", time(*due))
        }
        PutOutcome::Again { old, due, .. } => {
            format!("{id} was pending, due {}; it is now due {}", time(*old), time(*due))
        }
        PutOutcome::Changed(state, at) => format!("{id} is not as expected: {state}, {}", time(*at)),
        PutOutcome::Unknown => format!("{id} is unknown: nothing is pending that could be as expected"),
        PutOutcome::Exists(state, at) => format!("{id} exists: {state}, {}", time(*at)),
        PutOutcome::Conflict(state, at) => {
            format!("{id} is taken by another message: {state}, {}; replace it with --replace", time(*at))
        }
        PutOutcome::Newer => {
            format!("{id} is taken by a message of a later format; upgrade delayq here first")
        }
        PutOutcome::Malformed => format!("{id} holds bytes that are not a message; see delayq audit"),
        PutOutcome::Leased => format!("{id} is leased, and cannot be replaced now"),
        PutOutcome::Stale => format!("{id} may have been stored and finished before"),
        PutOutcome::Spooled => {
            format!("spooled {id}: Redis cannot store it now; the compensator will put it later")
        }
        PutOutcome::Refused(why) => format!("{id} was refused: {why}"),
    }
}
