//! A row that is kept aside, with the payload.

use crate::commands::get::shown;
use crate::commands::spool::record::{fields_of_message, json_of_message};
use crate::failure::{unknown, usage};
use crate::output::{Output, add_time, payload, time};
use delayq_compensator::{AsideRow, OutboxKeeper};
use delayq_service::Fault;
use serde_json::{Value, json};

pub(super) async fn show(
    keeper: &mut OutboxKeeper,
    number: u64,
    only_payload: bool,
    output: Output,
) -> Result<(), Fault> {
    let found = find(keeper, number).await?;
    if only_payload {
        let bytes = found.row.payload().ok_or_else(|| usage(format!("row {number} has no payload")))?;
        return payload(bytes);
    }
    output.print(&json_of(&found), || {
        let mut rows = output.rows(&["field", "value"]);
        for (name, value) in fields(&found) {
            rows.row([name.to_owned(), value]);
        }
        rows.text()
    })
}

pub(super) const fn state(found: &AsideRow) -> &'static str {
    if found.rests { "resting" } else { "rejected" }
}

async fn find(keeper: &mut OutboxKeeper, number: u64) -> Result<AsideRow, Fault> {
    for rests in [false, true] {
        let found = keeper.aside(rests, number.saturating_sub(1), 1).await?.pop();
        if let Some(found) = found.filter(|found| found.number == number) {
            return Ok(found);
        }
    }
    Err(unknown(format!("no row {number}; see delayq outbox rejected")))
}

fn fields(found: &AsideRow) -> Vec<(&'static str, String)> {
    let AsideRow { number, reason, since, row, .. } = found;
    let mut fields = vec![
        ("number", number.to_string()),
        ("state", state(found).to_owned()),
        ("since", time(*since)),
        ("reason", reason.clone()),
        ("verb", row.verb().to_owned()),
    ];
    match row.record() {
        Ok(record) => fields_of_message(&mut fields, &record),
        Err(_) => {
            fields.extend([("topic", row.topic().to_owned()), ("id", row.id().to_owned())]);
            fields.extend(row.payload().map(|payload| ("payload", shown(payload))));
        }
    }
    fields
}

fn json_of(found: &AsideRow) -> Value {
    let AsideRow { number, reason, since, row, .. } = found;
    let mut value = json!({
        "number": number, "state": state(found), "reason": reason, "verb": row.verb(), "topic": row.topic(), "id": row.id(),
    });
    add_time(&mut value, "since", Some(*since));
    match row.record() {
        Ok(record) => json_of_message(&mut value, &record),
        Err(why) => value["unreadable"] = why.into(),
    }
    value
}
