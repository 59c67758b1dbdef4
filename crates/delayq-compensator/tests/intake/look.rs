//! An operator's view of an intake, as `delayq doctor` asks for it.

use crate::stage::{Broker, Place, Sent, Stage};
use delayq_compensator::{IntakeConfig, IntakeFault, IntakeLook, look_at_intake};
use delayq_service::config::{Environment, Source, load};
use delayq_service::{configuration, install_tls};
use delayq_tests::deadline::{LONG, wait_until};
use std::collections::BTreeMap;

configuration! {
    pub(crate) struct IntakeSections {
        intake: BTreeMap<String, IntakeConfig>,
    }
}

/// Looks at a broker by its section, with further keys of the intake's kind.
pub(crate) async fn look<B: Broker>(broker: &B, of_kind: &str) -> Result<IntakeLook, IntakeFault> {
    install_tls();
    let text = format!("[intake.orders]\n{}{of_kind}\n", broker.section());
    let read = load::<IntakeSections>(&Source::text("test.toml", &text), &Environment::empty());
    look_at_intake(&read.unwrap().config.intake["orders"]).await
}

/// The view shows waiting records, a reader, and missing parts; a look takes, creates and joins nothing.
pub(crate) async fn an_operator_sees_what_waits_who_reads_it_and_what_is_missing<B: Broker>() {
    let mut stage = Stage::<B>::start().await;
    let broker = &stage.broker;
    let nothing = Ok(IntakeLook { lag: 0, lost: 0, reader: None });
    wait_until("a broker that is ready", LONG, async || look(broker, "").await == nothing).await;
    broker.publish((0..3).map(|n| Sent::put(&format!("m{n}"), &[])).collect()).await;
    // A queue counts ready records a little later than their confirms.
    let expected = Ok(IntakeLook { lag: 3, lost: 0, reader: None });
    for _ in 0..2 {
        wait_until("three records", LONG, async || look(broker, "").await == expected).await;
    }
    let compensator = stage.compensator("").await;
    stage.has_delayed(3).await;
    stage.is_settled().await;
    wait_until("a reader of nothing", LONG, async || {
        look(broker, "").await.is_ok_and(|look| look.lag == 0 && look.reader.is_some())
    })
    .await;
    compensator.is_ready().await;
    compensator.stop().await;
    wait_until("nobody", LONG, async || look(broker, "").await.is_ok_and(|look| look.reader.is_none())).await;

    for place in [Place::Dead, Place::Source] {
        broker.delete(place).await;
        wait_until("what is missing", LONG, async || {
            matches!(look(broker, "").await, Err(IntakeFault::Unusable(why))
                if place == Place::Dead || why.contains(B::MISSING))
        })
        .await;
    }
    stage.broker.kill().await;
    let away = look(&stage.broker, "").await;
    assert!(matches!(away, Err(IntakeFault::Unreachable(_))), "{away:?}");
}
