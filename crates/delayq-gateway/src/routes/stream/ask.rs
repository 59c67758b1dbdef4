//! The frames of a client: objects with one key, the kind of the frame.

use crate::input::parsed;
use crate::problem::{Kind, Problem};
use crate::routes::reserve::{default_bytes, one};
use crate::routes::settle::{SettleItem, SettleVerb};
use delayq::Topic;
use delayq_service::config::HumanDuration;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::collections::BTreeMap;

/// Maximum bytes of a frame.
pub(super) const MAX_FRAME: usize = 128 * 1024;

const KEYS: [&str; 6] = ["reserve", "credit", "ack", "release", "bury", "extend"];

/// A frame of the client.
pub(super) enum StreamAsk {
    Reserve(StreamReserve),
    /// So many credits more, or fewer.
    Credit(i32),
    Settle(SettleItem),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StreamReserve {
    pub(super) topics: Vec<Topic>,
    #[serde(default = "one")]
    pub(super) credits: u16,
    #[serde(default = "default_bytes")]
    pub(super) max_bytes: u32,
    #[serde(default)]
    pub(super) lease: Option<HumanDuration>,
}

/// The action is the key of the frame.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StreamSettle {
    receipt: String,
    delay: Option<HumanDuration>,
    keep_attempt: Option<bool>,
    reason: Option<String>,
    lease: Option<HumanDuration>,
}

// === impl StreamAsk ===

impl StreamAsk {
    pub(super) fn read(text: &str) -> Result<Self, Problem> {
        let keys: BTreeMap<String, Box<RawValue>> = parsed(text.as_bytes())?;
        let mut keys = keys.into_iter();
        let (Some((key, value)), None) = (keys.next(), keys.next()) else {
            let why = format!("a frame has one key: {}", KEYS.join(", "));
            return Err(Problem::new(Kind::Invalid, why));
        };
        let settle = |action| parsed::<StreamSettle>(value.get().as_bytes()).map(|of| of.with(action));
        match key.as_str() {
            "reserve" => parsed(value.get().as_bytes()).map(Self::Reserve),
            "credit" => serde_json::from_str(value.get()).map(Self::Credit).map_err(|_| {
                Problem::invalid("credit", "write how many credits more, or with a minus sign fewer")
            }),
            "ack" => settle(SettleVerb::Ack),
            "release" => settle(SettleVerb::Release),
            "bury" => settle(SettleVerb::Bury),
            "extend" => settle(SettleVerb::Extend),
            other => Err(Problem::unknown("frame", other, &KEYS)),
        }
    }
}

// === impl StreamSettle ===

impl StreamSettle {
    fn with(self, action: SettleVerb) -> StreamAsk {
        let Self { receipt, delay, keep_attempt, reason, lease } = self;
        StreamAsk::Settle(SettleItem { receipt, action, delay, keep_attempt, reason, lease })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(text: &str) -> String {
        let problem = StreamAsk::read(text).err().unwrap_or_else(|| panic!("{text} was taken"));
        format!("{} {}", problem.kind().code(), problem.detail())
    }

    #[test]
    fn a_frame_has_one_key_that_says_what_it_is() {
        let reserve = r#"{"reserve": {"topics": ["a", "b"], "credits": 7, "lease": "1m"}}"#;
        assert!(matches!(StreamAsk::read(reserve), Ok(StreamAsk::Reserve(of)) if of.credits == 7));
        assert!(matches!(StreamAsk::read(r#"{"credit": -3}"#), Ok(StreamAsk::Credit(-3))));
        for verb in ["ack", "release", "bury", "extend"] {
            let settle = format!(r#"{{"{verb}": {{"receipt": "r"}}}}"#);
            assert!(
                matches!(StreamAsk::read(&settle), Ok(StreamAsk::Settle(of)) if of.receipt == "r"),
                "{verb}"
            );
        }
    }

    #[test]
    fn unknown_keys_and_words_are_refused_by_name() {
        for (text, said) in [
            ("", "DQ-G101"),
            ("{", "DQ-G101"),
            ("[]", "DQ-G114 must be a JSON object"),
            ("7", "DQ-G114 must be a JSON object"),
            ("{}", "DQ-G114 a frame has one key: reserve, credit, ack"),
            (r#"{"credit": 1, "ack": {"receipt": "r"}}"#, "DQ-G114 a frame has one key"),
            (r#"{"eat": {}}"#, "DQ-G115 unknown frame eat; known: reserve, credit"),
            (r#"{"credit": "1"}"#, "DQ-G114 credit: "),
            (r#"{"credit": 1.5}"#, "DQ-G114 credit: "),
            (r#"{"ack": {"receipt": "r", "later": 1}}"#, "DQ-G114 later: unknown field `later`"),
            (r#"{"ack": {}}"#, "DQ-G114 missing field `receipt`"),
            (r#"{"ack": ["r"]}"#, "DQ-G114 must be a JSON object"),
            (r#"{"reserve": {"topics": ["t"], "max": 1}}"#, "DQ-G114 max: unknown field `max`"),
            (r#"{"reserve": {"topics": ["a b"]}}"#, "DQ-G114 topics[0]: "),
        ] {
            assert!(refusal(text).starts_with(said), "{text}: {}", refusal(text));
        }
    }
}
