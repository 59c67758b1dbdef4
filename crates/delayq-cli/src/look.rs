//! A look at a deployment whose parts may fail: what answers is shown, the rest is named, and the exit code says that it is
//! missing.

use crate::deployment::Context;
use crate::failure::{PARTIAL, UNKNOWN, message_of, of_core};
use crate::output::complain;
use delayq::admin::Unseen;
use delayq::protocol::ShardRanges;
use delayq_service::Fault;

/// Shows what the part of the deployment that answers says.
///
/// # Errors
/// No shard answers; those of `show`; and that shards are missing, after the others were shown.
pub async fn look(
    context: &Context,
    show: impl AsyncFnOnce(&Context) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let (context, unseen) = seen(context).await?;
    let shown = show(&context).await;
    let Some(missing) = missing(&unseen) else { return shown };
    match shown {
        Ok(()) => Err(Fault::new(&PARTIAL, missing)),
        // It may be in a shard that was not asked.
        Err(fault) if fault.code() == &UNKNOWN => {
            Err(Fault::new(&PARTIAL, format!("{missing}; in the others: {}", message_of(&fault))))
        }
        Err(fault) => {
            complain(&format!("delayq: {missing}"));
            Err(fault)
        }
    }
}

/// What looks only at the shards that answer now; and the others, a line for each node.
///
/// # Errors
/// No shard answers.
pub async fn seen(context: &Context) -> Result<(Context, Vec<String>), Fault> {
    let seen = context.admin().seen().await.map_err(of_core)?;
    let unseen = seen.unseen.iter().map(line).collect();
    Ok((context.limited_to(seen.admin), unseen))
}

fn line(Unseen { shards, error, .. }: &Unseen) -> String {
    let noun = if shards.len() == 1 { "shard" } else { "shards" };
    format!("{noun} {}: {error}", ShardRanges::from_iter(shards.iter().copied()))
}

/// That these are missing, as one sentence; `None`: none is.
fn missing(unseen: &[String]) -> Option<String> {
    (!unseen.is_empty()).then(|| format!("the answer is without {}", unseen.join("; without ")))
}
