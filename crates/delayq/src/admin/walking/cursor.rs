//! The position of a walk over every message, and the text form.

use delayq_core::ranges::ShardRanges;
use delayq_core::shard::ShardId;
use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

/// The text for an empty list of shards.
const NONE: &str = "-";

/// The position of a walk, valid regardless of changes of the nodes. The text form has no spaces.
///
/// ```text
/// 0-7                          these shards are through
/// 0-7:5d41/3:1536:8-11,14      and those of this node, so far in it
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WalkCursor {
    /// The finished shards.
    pub(super) through: BTreeSet<ShardId>,
    /// The present node.
    pub(super) visit: Option<Visit>,
}

/// A walk over the keys of one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Visit {
    /// The state of the node at the start of the visit. A later state differs if the node orders the keys otherwise, or
    /// if keys came back that were away meanwhile.
    pub(super) state: String,
    /// The cursor of SCAN.
    pub(super) cursor: u64,
    /// The shards that the node had completely at the start.
    pub(super) shards: BTreeSet<ShardId>,
}

// === impl WalkCursor ===

impl fmt::Display for WalkCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&text_of(&self.through))?;
        match &self.visit {
            Some(Visit { state, cursor, shards }) => write!(f, ":{state}:{cursor}:{}", text_of(shards)),
            None => Ok(()),
        }
    }
}

impl FromStr for WalkCursor {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts: Vec<&str> = text.split(':').collect();
        let parsed = match parts[..] {
            [through] => shards_of(through).map(|through| Self { through, visit: None }),
            [through, state, cursor, shards] => shards_of(through).and_then(|through| {
                let (cursor, shards) = (cursor.parse().ok()?, shards_of(shards)?);
                Some(Self { through, visit: Some(Visit { state: state.to_owned(), cursor, shards }) })
            }),
            _ => None,
        };
        parsed.ok_or_else(|| format!("{text:?} is not a cursor of a walk"))
    }
}

fn text_of(shards: &BTreeSet<ShardId>) -> String {
    match shards.is_empty() {
        true => NONE.to_owned(),
        false => shards.iter().copied().collect::<ShardRanges>().to_string(),
    }
}

fn shards_of(text: &str) -> Option<BTreeSet<ShardId>> {
    match text {
        NONE => Some(BTreeSet::new()),
        _ => Some(text.parse::<ShardRanges>().ok()?.shards().collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_read_back() {
        for text in ["-", "0-3", "-:ab12:0:0-3", "0-7,16:ab12/3:18446744073709551615:8-11,14"] {
            assert_eq!(text.parse::<WalkCursor>().unwrap().to_string(), text);
        }
        for bad in ["", "ab12:5", "-:ab12:-1:0", "-:ab12:x:0", "-:ab12:1:", "0-3:ab12:1:0:1"] {
            assert!(bad.parse::<WalkCursor>().is_err(), "{bad}");
        }
    }
}
