//! The frames of the gateway: objects with one key, the kind of the frame.

use crate::problem::Problem;
use serde_json::{Value, json};

/// A message, as a reserve answers.
pub(super) fn message(message: &Value) -> String {
    json!({ "message": message }).to_string()
}

/// The credits from now on.
pub(super) fn credits(all: u16) -> String {
    json!({ "credits": all }).to_string()
}

/// The outcome of a settlement.
pub(super) fn settled(receipt: &str, mut outcome: Value) -> String {
    outcome["receipt"] = receipt.into();
    json!({ "settled": outcome }).to_string()
}

/// The refusal of the client's frame with this number, from 1; of a settlement with its receipt. `None`: of no frame.
pub(super) fn error(problem: &Problem, frame: Option<u64>, receipt: Option<&str>) -> String {
    let mut value = problem.object();
    if let Some(frame) = frame {
        value["frame"] = frame.into();
    }
    if let Some(receipt) = receipt {
        value["receipt"] = receipt.into();
    }
    json!({ "error": value }).to_string()
}

/// For clients that cannot see the pings of the protocol, as in a browser.
pub(super) fn ping() -> String {
    json!({ "ping": {} }).to_string()
}
