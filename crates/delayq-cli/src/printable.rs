//! Text that a terminal can only show. Text of producers and workers (ids, headers, reasons, payloads) must not move
//! the cursor, rewrite earlier lines, or turn letters around.

use std::borrow::Cow;
use std::fmt::Write as _;

/// The text with control characters, bidirectional controls and invisible tags as JSON escapes: `\u001b`. JSON stays
/// the same JSON.
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.contains(acts) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for letter in text.chars() {
        match letter {
            '\n' => shown.push_str("\\n"),
            '\r' => shown.push_str("\\r"),
            '\t' => shown.push_str("\\t"),
            letter if acts(letter) => {
                for unit in letter.encode_utf16(&mut [0; 2]) {
                    write!(shown, "\\u{unit:04x}").expect("writing to a string cannot fail");
                }
            }
            letter => shown.push(letter),
        }
    }
    Cow::Owned(shown)
}

/// [`printable`] line by line.
pub fn printable_lines(text: &str) -> Cow<'_, str> {
    if !text.contains(|letter| letter != '\n' && acts(letter)) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.split('\n').map(printable).collect::<Vec<_>>().join("\n"))
}

/// Returns whether a terminal does more with a letter than showing the letter.
fn acts(letter: char) -> bool {
    letter.is_control()
        || matches!(letter,
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{206f}'
            | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_a_terminal_would_obey_is_shown_instead() {
        for (text, shown) in [
            ("plain, naïve and 日本 👩‍🚀", "plain, naïve and 日本 👩‍🚀"),
            ("\u{1b}]0;title\u{7}", "\\u001b]0;title\\u0007"),
            ("a\r\u{8}b\tc\u{7f}\u{9b}2J", "a\\r\\u0008b\\tc\\u007f\\u009b2J"),
            ("a\u{202e}b\u{2066}c\u{200f}", "a\\u202eb\\u2066c\\u200f"),
            ("\u{e0041}", "\\udb40\\udc41"),
        ] {
            assert_eq!(printable(text), shown);
        }
        assert_eq!(printable("a\nb"), "a\\nb");
        assert_eq!(printable_lines("a\nb\u{1b}\n"), "a\nb\\u001b\n");
    }

    #[test]
    fn json_is_the_same_json_afterwards() {
        let value = serde_json::json!({ "\u{9b}": "\u{1b}\u{202e}\u{e0041}" });
        let shown = printable(&value.to_string()).into_owned();
        assert!(shown.is_ascii());
        assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).unwrap(), value);
    }
}
