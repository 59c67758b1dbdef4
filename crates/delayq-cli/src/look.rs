//! Reports a look: the part that answers, then a fault that names the missing rest.

use crate::deployment::{Context, no_topic};
use crate::failure::{PARTIAL, UNKNOWN, of_core, unknown};
use crate::output::complain;
use delayq::Topic;
use delayq_look::{Look, Shards, Topics, Want};
use delayq_service::Fault;

/// Runs `show` on the part of the deployment that answers.
///
/// # Errors
/// No shard answers; the errors of `show`; and [`PARTIAL`], after the visible part was shown.
pub async fn look(
    context: &Context,
    show: impl AsyncFnOnce(&Context) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let look = Look::take(&context.deployment, Want::default()).await;
    answering(&look)?;
    finish(&look, show(&context.limited_to(&look.part)).await)
}

/// The shards that answer.
///
/// # Errors
/// No shard answers.
pub fn answering(look: &Look) -> Result<&Shards, Fault> {
    look.shards.as_ref().map_err(|error| of_core(error.clone()))
}

/// The topics.
///
/// # Errors
/// No shard answers, or a shard stopped answering.
pub fn topics(look: &Look) -> Result<&Topics, Fault> {
    answering(look)?;
    let topics = look.topics.as_ref().expect("the topics were requested");
    topics.as_ref().map_err(|error| of_core(error.clone()))
}

/// The topics, if the wanted topics exist.
///
/// # Errors
/// A topic does not exist, and the message names a similar topic; or an error of [`topics`].
pub fn known<'l>(look: &'l Look, wanted: &[Topic]) -> Result<&'l Topics, Fault> {
    let seen = topics(look)?;
    match wanted.iter().find(|topic| !seen.names.contains(topic)) {
        Some(topic) => Err(unknown(no_topic(topic, &seen.names))),
        None => Ok(seen),
    }
}

/// The result of a command that showed the visible part, or failed to show that part.
///
/// # Errors
/// [`PARTIAL`] if parts are missing; and the error of the command.
pub fn finish(look: &Look, shown: Result<(), Fault>) -> Result<(), Fault> {
    let missing = look.missing();
    if missing.is_empty() {
        return shown;
    }
    let missing = format!("not in the answer: {}", missing.join("; "));
    match shown {
        Ok(()) => Err(Fault::new(&PARTIAL, missing)),
        // The unknown thing may be in a shard that was not asked.
        Err(fault) if fault.code() == &UNKNOWN => {
            Err(Fault::new(&PARTIAL, format!("{missing}; in the others: {}", fault.message())))
        }
        Err(fault) => {
            complain(&format!("delayq: {missing}"));
            Err(fault)
        }
    }
}
