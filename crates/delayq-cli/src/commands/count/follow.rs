//! `delayq count --follow`: a line whenever the numbers of a topic have moved.

use crate::deployment::Context;
use crate::failure::of_core;
use crate::output::Output;
use delayq::Topic;
use delayq::admin::Numbers;
use delayq_service::Fault;
use serde_json::json;
use std::time::Duration;

const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// Ends at Ctrl-C.
pub(super) async fn follow(context: &Context, topic: &Topic) -> Result<(), Fault> {
    tokio::select! {
        // Ctrl-C is caught before the first line is printed, so that a reader of the line may end the command.
        biased;
        _ = tokio::signal::ctrl_c() => Ok(()),
        followed = follow_numbers(context, topic) => followed,
    }
}

async fn follow_numbers(context: &Context, topic: &Topic) -> Result<(), Fault> {
    let admin = context.admin();
    let mut last = admin.topic(topic).count().await.map_err(of_core)?;
    loop {
        tokio::time::sleep(POLL_INTERVAL).await;
        let next = admin.topic(topic).count().await.map_err(of_core)?;
        if moved(&last) != moved(&next) {
            line(context.output, topic, &last, &next)?;
        }
        last = next;
    }
}

const fn moved(numbers: &Numbers) -> [u64; 6] {
    [numbers.accepted, numbers.delivered, numbers.cancelled, numbers.expired, numbers.buried, numbers.ready]
}

fn line(output: Output, topic: &Topic, last: &Numbers, next: &Numbers) -> Result<(), Fault> {
    let names = ["accepted", "delivered", "cancelled", "expired", "buried"];
    let changes: Vec<(&str, u64)> = names
        .into_iter()
        .zip(moved(last).into_iter().zip(moved(next)))
        .map(|(name, (last, next))| (name, next.saturating_sub(last)))
        .filter(|(_, change)| *change > 0)
        .collect();
    let value = json!({
        "topic": topic, "delayed": next.delayed, "ready": next.ready, "leased": next.leased,
        "changes": changes.iter().copied().collect::<std::collections::BTreeMap<_, _>>(),
    });
    output.line(&value, || {
        let changes: Vec<String> = changes.iter().map(|(name, change)| format!("+{change} {name}")).collect();
        let Numbers { delayed, ready, leased, .. } = next;
        format!("{topic}: {delayed} delayed, {ready} ready, {leased} leased  {}", changes.join(", "))
    })
}
