//! Who did what.

use super::answer::{Answer, json};
use super::listing::limit;
use crate::input::Ask;
use crate::problem::Problem;
use crate::state::App;
use axum::extract::State;
use axum::http::StatusCode;
use delayq_service::json::add_time;
use serde_json::{Value, json as value};

const DEFAULT_LIMIT: usize = 100;

pub(super) async fn list(State(app): State<App>, ask: Ask) -> Answer {
    let (limit, after) = (limit(&ask.query, DEFAULT_LIMIT)?, ask.query.text("after"));
    if after.is_some_and(|after| !is_id(after)) {
        return Err(Problem::invalid("after", "must be the next of a page"));
    }
    let (entries, next) = app.actions.page(ask.caller.tenant.as_ref(), after, limit).await?;
    let shown = |(logged, entry): &(delayq::admin::LoggedAction, crate::actions::ActionEntry)| {
        let mut shown = value!(entry);
        (shown["of"], shown["with"]) = (entry.of(), entry.with());
        add_time(&mut shown, "done", Some(logged.at));
        shown
    };
    let actions: Value = entries.iter().map(shown).collect();
    Ok(json(StatusCode::OK, &value!({ "actions": actions, "next": next })))
}

/// True for the id of an entry of a stream. Redis fails at the first one, since nothing is before it.
fn is_id(text: &str) -> bool {
    let number =
        |part: &str| part.parse::<u64>().ok().filter(|_| part.bytes().all(|byte| byte.is_ascii_digit()));
    let parts = text.split_once('-').and_then(|(ms, n)| number(ms).zip(number(n)));
    parts.is_some_and(|parts| parts != (0, 0))
}
