//! Checks the sources of a compensator other than the spool: the outbox of a database, and the intakes. Checks access,
//! readers and waiting writes.

mod intake;
mod outbox;

use crate::deployment::{Context, Global};
use delayq_compensator::IntakeConfig;
use delayq_look::Check;
use delayq_service::config::{Environment, load};
use delayq_service::{Fault, configuration};
use futures_util::future::join_all;
use std::collections::BTreeMap;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(5);

configuration! {
    /// Read separately, because the secrets of the brokers may be out of reach of other commands' users.
    struct IntakeSections {
        intake: BTreeMap<String, IntakeConfig>,
    }
}

/// Checks all configured sources at once, without taking anything from a source.
pub async fn look(global: &Global, context: &Context) -> Vec<Check> {
    let intakes = match load::<IntakeSections>(&global.source(), &Environment::of_process()) {
        Ok(loaded) => loaded.config.intake,
        Err(faults) => {
            return vec![Check::bad("intake", Fault::from(faults).to_string(), "delayq config check")];
        }
    };
    let looks = join_all(intakes.iter().map(|(name, config)| intake::look(name, config, PATIENCE)));
    let (outbox, intakes) = tokio::join!(outbox::look(&context.config.outbox, PATIENCE), looks);
    outbox.into_iter().chain(intakes).collect()
}
