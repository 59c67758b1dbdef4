//! How a put meets a pending message with its id.
//!
//! In words as in the script's options: `later`, `sooner` or `within=<ms>`, and `keep`.

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
    /// That of the put again, but at most this long after the first put, in whole milliseconds.
    Within(Duration),
}

/// The longest wait of a debounce, or the words of an [`Again`], are invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a mode: expected later, sooner or within=MS (1 or more), and optionally keep")]
pub struct OddAgain(String);

// === impl Again ===

impl Again {
    /// True if a pending message is merely replaced.
    pub fn is_plain(self) -> bool {
        self == Self::default()
    }

    /// True if the script accepts the longest wait.
    pub fn is_valid(self) -> bool {
        match self.due {
            DueRule::Within(longest) => (1..1 << 53).contains(&longest.as_millis()),
            _ => true,
        }
    }
}

impl fmt::Display for Again {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.due {
            DueRule::New => {}
            DueRule::Later => f.write_str("later")?,
            DueRule::Sooner => f.write_str("sooner")?,
            DueRule::Within(longest) => write!(f, "within={}", longest.as_millis())?,
        }
        let between = if self.keep && self.due != DueRule::New { " " } else { "" };
        write!(f, "{between}{}", if self.keep { "keep" } else { "" })
    }
}

impl FromStr for Again {
    type Err = OddAgain;

    fn from_str(text: &str) -> Result<Self, OddAgain> {
        let odd = || OddAgain(text.chars().take(60).collect());
        let mut again = Self::default();
        for word in text.split(' ').filter(|word| !word.is_empty()) {
            let rule = match word {
                "keep" if !again.keep => {
                    again.keep = true;
                    continue;
                }
                "later" => DueRule::Later,
                "sooner" => DueRule::Sooner,
                _ => {
                    let ms = word.strip_prefix("within=").and_then(|ms| ms.parse().ok());
                    DueRule::Within(Duration::from_millis(ms.ok_or_else(odd)?))
                }
            };
            if again.due != DueRule::New {
                return Err(odd());
            }
            again.due = rule;
        }
        if again.is_valid() { Ok(again) } else { Err(odd()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let minute = DueRule::Within(Duration::from_secs(60));
        for (due, keep, text) in [
            (DueRule::New, false, ""),
            (DueRule::New, true, "keep"),
            (DueRule::Later, false, "later"),
            (DueRule::Sooner, true, "sooner keep"),
            (minute, false, "within=60000"),
            (minute, true, "within=60000 keep"),
        ] {
            let again = Again { due, keep };
            assert_eq!((again.to_string().as_str(), text.parse()), (text, Ok(again)));
        }
    }

    #[test]
    fn odd_words_are_refused() {
        for odd in [
            "soon",
            "within=0",
            "within=",
            "within=9007199254740992",
            "later sooner",
            "keep keep",
            "within=+1x",
        ] {
            assert!(odd.parse::<Again>().is_err(), "{odd}");
        }
    }
}
