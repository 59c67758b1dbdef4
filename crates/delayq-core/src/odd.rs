//! Names outside the rules, as text: a topic or an id that some program other than a delayq client stored.
//!
//! `~odd-` and the bytes, of which any except letters, digits, `.`, `_`, `-` and `/` become `%` and two hex digits. No
//! name inside the rules has that text, so a command can show such a name, and accept it for removing the data.

const MARK: &str = "~odd-";

pub(crate) fn text_of(bytes: &[u8]) -> String {
    let mut text = MARK.to_owned();
    for &byte in bytes {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'_' | b'-' | b'/' => text.push(byte.into()),
            _ => text.push_str(&format!("%{byte:02X}")),
        }
    }
    text
}

/// `None` for texts of regular names.
pub(crate) fn bytes_of(text: &str) -> Option<Vec<u8>> {
    let (mut bytes, mut rest) = (Vec::new(), text.strip_prefix(MARK)?.as_bytes());
    while let [first, behind @ ..] = rest {
        let (byte, behind) = match (first, behind) {
            (b'%', [high, low, behind @ ..]) => (hex(*high)? << 4 | hex(*low)?, behind),
            (b'%', _) => return None,
            (byte, behind) => (*byte, behind),
        };
        bytes.push(byte);
        rest = behind;
    }
    Some(bytes)
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).map(|value| value as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_bytes_are_read_back_and_shown_without_a_control_character() {
        for bytes in [&b""[..], b"my orders", b"a\nb\0", b"\xff\xfe", b"%41~x", &[b'a'; 129]] {
            let text = text_of(bytes);
            assert!(text.bytes().all(|byte| byte.is_ascii_graphic()), "{text}");
            assert_eq!(bytes_of(&text).as_deref(), Some(bytes), "{text}");
        }
        assert_eq!(text_of(b"my orders"), "~odd-my%20orders");
        for none in ["", "orders", "~", "~x", "~odd-%", "~odd-%4", "~odd-%4g"] {
            assert_eq!(bytes_of(none), None, "{none}");
        }
    }
}
