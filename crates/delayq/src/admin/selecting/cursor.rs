//! The position of a walk over a selection, and its text form.

use delayq_core::time::UnixMillis;
use delayq_core::verbs::cursor::Cursor;
use std::fmt;
use std::str::FromStr;

/// The start of a page of a selection; the default is the beginning. The text form has no spaces.
///
/// ```text
/// 3:1                       the second listing of the fourth shard
/// 3:1:1800000000000:6f2d    the same, after this entry
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SelectCursor {
    /// The place of the shard in the cut.
    pub(super) shard: usize,
    /// The place of the listing: a state of a topic, or the group.
    pub(super) part: usize,
    /// `None`: from the start of the listing.
    pub(super) at: Option<Cursor>,
}

// === impl SelectCursor ===

impl SelectCursor {
    /// The place in the cut of the shard of the next page.
    #[must_use]
    pub const fn shard(&self) -> usize {
        self.shard
    }
}

impl fmt::Display for SelectCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.shard, self.part)?;
        let Some(at) = &self.at else { return Ok(()) };
        write!(f, ":{}:", at.at())?;
        at.entry().iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl FromStr for SelectCursor {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts: Vec<&str> = text.split(':').collect();
        let parse = || {
            let (shard, part) = (parts.first()?.parse().ok()?, parts.get(1)?.parse().ok()?);
            let at = match parts[2..] {
                [] => None,
                [at, entry] => Some(Cursor::behind(UnixMillis::new(at.parse().ok()?), bytes_of(entry)?)),
                _ => return None,
            };
            Some(Self { shard, part, at })
        };
        parse().ok_or_else(|| format!("{text:?} is not a cursor of a selection"))
    }
}

fn bytes_of(hex: &str) -> Option<Vec<u8>> {
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    hex.len().is_multiple_of(2).then(|| hex.as_bytes().chunks(2).map(byte).collect())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_read_back() {
        for text in ["0:0", "3:1", "3:1:1800000000000:6f2dff", "0:0:0:"] {
            assert_eq!(text.parse::<SelectCursor>().unwrap().to_string(), text);
        }
        for bad in ["", "1", "1:x", "1:1:1", "1:1:1:0", "1:1:1:0g", "1:1:1:00:1", "-1:1"] {
            assert!(bad.parse::<SelectCursor>().is_err(), "{bad}");
        }
    }
}
