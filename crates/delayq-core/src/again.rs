//! How a put meets a pending message with its id.
//!
//! In words as in the script's options: `later`, `sooner`, `content`, `within=<ms>`, `throttle=<ms>` or `swallow=<ms>`; `keep`;
//! `expected=<ms>`; `hash=<16 hex digits>`; and `gen=<gen>` or `gen=any`.

use crate::envelope::ContentHash;
use crate::time::UnixMillis;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// How a replacing put treats a pending message with its id.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Again {
    /// The rule for the due time.
    pub due: DueRule,
    /// True if the pending message keeps its payload, headers and options.
    pub keep: bool,
    /// The due time that the pending message must have; otherwise nothing is changed.
    pub expected: Option<UnixMillis>,
    /// The content that the pending message must have; otherwise nothing is changed.
    pub content: Option<ContentHash>,
    /// The gen of a message that must be there, pending, dead or finished; otherwise nothing is changed.
    pub generation: Option<ExpectedGen>,
}

/// The gen that a message must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpectedGen {
    /// Any: the message must be known.
    Any,
    /// This one.
    Is(u32),
}

/// Which due time a message has after a put again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DueRule {
    /// That of the put again.
    #[default]
    New,
    /// The later of both.
    Later,
    /// The sooner of both.
    Sooner,
    /// The due time of the pending message: only the content changes.
    Content,
    /// That of the put again, but at most this long after the first put, in whole milliseconds.
    Within(Duration),
    /// The due time of the pending message; behind a delivery, at least this long after its due time, in whole milliseconds.
    Throttle(Duration),
    /// None: a put that meets a message which is pending, leased, or was delivered in this window stores nothing.
    Swallow(Duration),
}

/// A demand of a put again on the pending message, for [`crate::message::Message::expecting`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expectation {
    /// This due time.
    Due(UnixMillis),
    /// This content.
    Content(ContentHash),
    /// This gen: also of a dead or finished message, which is then replaced.
    Gen(ExpectedGen),
}

/// The span of a [`DueRule`], or the words of an [`Again`], are invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not a mode: expected later, sooner, content, or within=MS, throttle=MS or swallow=MS (1 or more), and \
     optionally keep, expected=MS, hash=HASH (16 hex digits) and gen=GEN"
)]
pub struct OddAgain(String);

// === impl Again ===

impl Again {
    /// True if a pending message is merely replaced.
    pub fn is_plain(self) -> bool {
        self == Self::default()
    }

    /// True if an unexpected message stays unchanged.
    pub fn expects(self) -> bool {
        self.expected.is_some() || self.content.is_some() || self.generation.is_some()
    }

    /// True if the script accepts the span and the expected due time.
    pub fn is_valid(self) -> bool {
        let expected = self.expected.is_none_or(|due| due.get() > 0 && due <= UnixMillis::MAX);
        let span = match self.due {
            DueRule::Within(span) | DueRule::Throttle(span) | DueRule::Swallow(span) => Some(span),
            DueRule::New | DueRule::Later | DueRule::Sooner | DueRule::Content => None,
        };
        expected && span.is_none_or(|span| (1..1 << 53).contains(&span.as_millis()))
    }
}

impl fmt::Display for Again {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rule = match self.due {
            DueRule::New => None,
            DueRule::Later => Some("later".to_owned()),
            DueRule::Sooner => Some("sooner".to_owned()),
            DueRule::Content => Some("content".to_owned()),
            DueRule::Within(longest) => Some(format!("within={}", longest.as_millis())),
            DueRule::Throttle(window) => Some(format!("throttle={}", window.as_millis())),
            DueRule::Swallow(window) => Some(format!("swallow={}", window.as_millis())),
        };
        let keep = self.keep.then(|| "keep".to_owned());
        let expected = self.expected.map(|due| format!("expected={due}"));
        let content = self.content.map(|hash| format!("hash={hash}"));
        let generation = self.generation.map(|generation| format!("gen={generation}"));
        let words: Vec<_> = [rule, keep, expected, content, generation].into_iter().flatten().collect();
        f.write_str(&words.join(" "))
    }
}

impl FromStr for Again {
    type Err = OddAgain;

    fn from_str(text: &str) -> Result<Self, OddAgain> {
        let odd = || OddAgain(text.chars().take(60).collect());
        let mut again = Self::default();
        for word in text.split(' ').filter(|word| !word.is_empty()) {
            let (name, value) = word.split_once('=').unwrap_or((word, ""));
            let ms = || value.parse().map_err(|_| odd());
            let span = || ms().map(Duration::from_millis);
            let is_new = match name {
                "keep" => !std::mem::replace(&mut again.keep, true),
                "expected" => again.expected.replace(UnixMillis::new(ms()?)).is_none(),
                "gen" => again.generation.replace(value.parse().map_err(|_| odd())?).is_none(),
                "hash" => again.content.replace(value.parse().map_err(|_| odd())?).is_none(),
                _ => {
                    let rule = match name {
                        "later" => DueRule::Later,
                        "sooner" => DueRule::Sooner,
                        "content" => DueRule::Content,
                        "within" => DueRule::Within(span()?),
                        "throttle" => DueRule::Throttle(span()?),
                        "swallow" => DueRule::Swallow(span()?),
                        _ => return Err(odd()),
                    };
                    std::mem::replace(&mut again.due, rule) == DueRule::New
                }
            };
            let has_value = matches!(name, "within" | "throttle" | "swallow" | "expected" | "hash" | "gen");
            if !is_new || has_value != word.contains('=') {
                return Err(odd());
            }
        }
        if again.is_valid() { Ok(again) } else { Err(odd()) }
    }
}

// === impl Expectation ===

impl From<UnixMillis> for Expectation {
    fn from(due: UnixMillis) -> Self {
        Self::Due(due)
    }
}

impl From<ContentHash> for Expectation {
    fn from(hash: ContentHash) -> Self {
        Self::Content(hash)
    }
}

impl From<ExpectedGen> for Expectation {
    fn from(generation: ExpectedGen) -> Self {
        Self::Gen(generation)
    }
}

// === impl ExpectedGen ===

impl fmt::Display for ExpectedGen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("any"),
            Self::Is(generation) => generation.fmt(f),
        }
    }
}

impl FromStr for ExpectedGen {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "any" { Ok(Self::Any) } else { text.parse().map(Self::Is) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        const MINUTE: Duration = Duration::from_secs(60);
        let minute = DueRule::Within(MINUTE);
        for (due, keep, text) in [
            (DueRule::New, false, ""),
            (DueRule::New, true, "keep"),
            (DueRule::Later, false, "later"),
            (DueRule::Sooner, true, "sooner keep"),
            (DueRule::Content, false, "content"),
            (minute, false, "within=60000"),
            (minute, true, "within=60000 keep"),
            (DueRule::Throttle(MINUTE), false, "throttle=60000"),
            (DueRule::Throttle(MINUTE), true, "throttle=60000 keep"),
            (DueRule::Swallow(MINUTE), false, "swallow=60000"),
        ] {
            let again = Again { due, keep, ..Again::default() };
            assert_eq!((again.to_string().as_str(), text.parse()), (text, Ok(again)));
            let again =
                Again { expected: Some(UnixMillis::new(5)), content: Some(ContentHash([10; 8])), ..again };
            let conditional = format!("{text} expected=5 hash=0a0a0a0a0a0a0a0a");
            assert_eq!((again.to_string().as_str(), conditional.parse()), (conditional.trim(), Ok(again)));
            for (generation, word) in [(ExpectedGen::Any, "gen=any"), (ExpectedGen::Is(7), "gen=7")] {
                let again = Again { generation: Some(generation), ..again };
                let tagged = format!("{conditional} {word}");
                assert_eq!((again.to_string().as_str(), tagged.parse()), (tagged.trim(), Ok(again)));
            }
        }
    }

    #[test]
    fn odd_words_are_refused() {
        for odd in [
            "soon",
            "within=0",
            "within=",
            "within=9007199254740992",
            "throttle",
            "throttle=0",
            "swallow=",
            "swallow=9007199254740992",
            "throttle=1 swallow=1",
            "within=1 throttle=1",
            "later sooner",
            "keep keep",
            "within=+1x",
            "content later",
            "content=1",
            "keep=",
            "expected",
            "expected=0",
            "expected=5 expected=6",
            "hash=0a",
            "gen",
            "gen=4294967296",
            "gen=any gen=1",
            "hash=0a0a0a0a0a0a0a0g",
        ] {
            assert!(odd.parse::<Again>().is_err(), "{odd}");
        }
    }
}
