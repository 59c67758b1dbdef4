//! What a put names outside of its body, and what is wrong with the body.

use crate::problem::Kind;
use delayq::{MessageId, Topic};
use serde_json::value::RawValue;

/// The topic and the id in the path, or in headers.
#[derive(Debug, Default)]
pub(super) struct PutNames {
    pub(super) topic: Option<Topic>,
    pub(super) id: Option<MessageId>,
}

/// A body without valid JSON is malformed; JSON that is not a message is invalid.
pub(super) fn fault(body: &[u8]) -> Kind {
    match serde_json::from_slice::<&RawValue>(body) {
        Err(_) => Kind::Malformed,
        Ok(_) => Kind::Invalid,
    }
}
