//! Patterns of topics.
//!
//! `?` is one character and `*` any run of characters, both without `/`; `**` is any run at all.

use std::fmt;
use std::str::FromStr;

/// A pattern of topics, or one topic. The default matches none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pattern {
    text: String,
    parts: Vec<PatternPart>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PatternPart {
    Char(char),
    /// `?`
    One,
    /// `*`
    Run,
    /// `**`
    All,
}

// === impl Pattern ===

impl Pattern {
    /// Tells whether the pattern matches this topic.
    #[must_use]
    pub fn matches(&self, topic: &str) -> bool {
        let chars: Vec<PatternPart> = topic.chars().map(PatternPart::Char).collect();
        covers(&self.parts, &chars)
    }

    /// Tells whether this matches every topic that `other` matches. May be false although true, never the reverse.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        covers(&self.parts, &other.parts)
    }

    /// The topic, unless the text is a pattern.
    #[must_use]
    pub fn exact(&self) -> Option<&str> {
        self.parts.iter().all(|part| matches!(part, PatternPart::Char(_))).then_some(self.text.as_str())
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.text.fmt(f)
    }
}

impl FromStr for Pattern {
    type Err = String;

    /// Fails if no topic could ever match.
    fn from_str(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err("an empty pattern matches no topic; `**` matches every topic".to_owned());
        }
        let mut parts = Vec::new();
        for c in text.chars() {
            match (c, parts.last()) {
                ('*', Some(PatternPart::Run)) => {
                    *parts.last_mut().expect("there is a last one") = PatternPart::All;
                }
                ('*', Some(PatternPart::All)) => {}
                ('*', _) => parts.push(PatternPart::Run),
                ('?', _) => parts.push(PatternPart::One),
                (c, _) if c.is_ascii_alphanumeric() || "._-/".contains(c) => parts.push(PatternPart::Char(c)),
                (c, _) => {
                    return Err(format!(
                        "no topic matches `{text}`: {c:?} cannot be in one; use letters, digits, . _ - / and the \
                         wildcards ? * **"
                    ));
                }
            }
        }
        let least =
            parts.iter().filter(|part| matches!(part, PatternPart::Char(_) | PatternPart::One)).count();
        if least > delayq::Topic::MAX_BYTES {
            return Err(format!("no topic matches `{text}`: topics are shorter than {least} characters"));
        }
        Ok(Self { text: text.to_owned(), parts })
    }
}

delayq_service::written!(Pattern, "a topic or a pattern of topics, such as \"orders.*\"");

/// Dynamic programming over the parts: without recursion no pattern is slow.
fn covers(pattern: &[PatternPart], parts: &[PatternPart]) -> bool {
    let mut taken = vec![false; parts.len() + 1];
    taken[0] = true;
    for &wanted in pattern {
        let mut next = vec![false; parts.len() + 1];
        match wanted {
            PatternPart::Run | PatternPart::All => {
                next[0] = taken[0];
                for (i, &part) in parts.iter().enumerate() {
                    let absorbs = wanted == PatternPart::All
                        || !matches!(part, PatternPart::All | PatternPart::Char('/'));
                    next[i + 1] = taken[i + 1] || (next[i] && absorbs);
                }
            }
            PatternPart::One | PatternPart::Char(_) => {
                for (i, &part) in parts.iter().enumerate() {
                    let takes = part == wanted
                        || (wanted == PatternPart::One && matches!(part, PatternPart::Char(c) if c != '/'));
                    next[i + 1] = taken[i] && takes;
                }
            }
        }
        taken = next;
    }
    taken[parts.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(text: &str) -> Pattern {
        text.parse().unwrap()
    }

    #[test]
    fn a_star_stays_within_a_slash_and_two_do_not() {
        for (text, topic, expected) in [
            ("orders", "orders", true),
            ("orders", "orders2", false),
            ("orders.*", "orders.paid", true),
            ("orders.*", "orders.", true),
            ("orders.*", "orders", false),
            ("*", "a/b", false),
            ("*/orders", "shop/orders", true),
            ("**", "a/b/c", true),
            ("shop/**", "shop/a/b", true),
            ("a?c", "abc", true),
            ("a?c", "a/c", false),
            ("***", "x/y", true),
        ] {
            assert_eq!(pattern(text).matches(topic), expected, "{text} {topic}");
        }
    }

    #[test]
    fn a_pattern_covers_what_it_always_matches() {
        for (wide, narrow, expected) in [
            ("**", "*", true),
            ("*", "**", false),
            ("*", "a*", true),
            ("a*", "*", false),
            ("a?", "ab", true),
            ("ab", "a?", false),
            ("*/x", "t/x", true),
            ("a*c", "a?c", true),
            ("*", "a/b", false),
            ("a**", "a*/b", true),
        ] {
            assert_eq!(pattern(wide).covers(&pattern(narrow)), expected, "{wide} {narrow}");
        }
    }

    #[test]
    fn a_pattern_that_no_topic_can_match_is_refused() {
        for text in ["", "a b", "ärger", "a{b}", &"x".repeat(129)] {
            assert!(text.parse::<Pattern>().is_err(), "{text}");
        }
    }
}
