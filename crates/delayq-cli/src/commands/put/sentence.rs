//! The answer to a put, as a sentence.

use crate::output::time;
use delayq::{Put as Answer, PutOutcome};

pub(super) fn sentence(answer: &Answer) -> String {
    let id = &answer.reference.id;
    match &answer.outcome {
        PutOutcome::Stored(due) => format!("stored {id}, due {}", time(*due)),
        PutOutcome::Ready(due) => format!("stored {id}, due {}: it is ready", time(*due)),
        PutOutcome::Again { old, due, .. } if due == old => {
            format!("{id} was pending, and is due as before, {}", time(*due))
        }
        PutOutcome::Again { old, due, .. } => {
            format!("{id} was pending, due {}, and is due {} now", time(*old), time(*due))
        }
        PutOutcome::Exists(state, at) => format!("{id} exists: {state}, {}", time(*at)),
        PutOutcome::Conflict(state, at) => {
            format!("{id} is the id of another message: {state}, {}; replace it with --replace", time(*at))
        }
        PutOutcome::Newer => {
            format!("{id} is the id of a message of a later format; upgrade delayq here first")
        }
        PutOutcome::Malformed => format!("{id} holds bytes that are not a message; see delayq audit"),
        PutOutcome::Leased => format!("{id} is leased now, and cannot be replaced"),
        PutOutcome::Stale => format!("{id} may have been stored and finished before"),
        PutOutcome::Spooled => {
            format!("spooled {id}: Redis does not store it now, the compensator will put it")
        }
        PutOutcome::Refused(why) => format!("{id} was refused: {why}"),
    }
}
