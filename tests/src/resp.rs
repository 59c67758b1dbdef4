//! Finds the end of a reply of Redis's protocol in a stream of bytes (RESP 2 and 3).

/// The beginning of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Frame {
    /// One whole reply of this many bytes.
    Whole(usize),
    /// Only the beginning of a reply.
    Partial,
    /// Bytes that no Redis sends.
    Alien,
}

/// Measures the first reply in `bytes`. Attributes and pushes count as separate replies.
#[must_use]
pub fn first_reply(bytes: &[u8]) -> Frame {
    let mut at = 0;
    // Number of missing values of the reply; aggregates increase this number.
    let mut open = 1_u64;
    while open > 0 {
        let Some(length) = bytes[at..].windows(2).position(|w| w == b"\r\n") else { return Frame::Partial };
        let head = &bytes[at..at + length];
        at += length + 2;
        open -= 1;
        let Some((kind, rest)) = head.split_first() else { return Frame::Alien };
        match kind {
            b'+' | b'-' | b':' | b'_' | b',' | b'#' | b'(' => {}
            b'$' | b'!' | b'=' => match number(rest) {
                Some(-1) => {}
                Some(size) => match usize::try_from(size) {
                    Ok(size) => at += size + 2,
                    Err(_) => return Frame::Alien,
                },
                None => return Frame::Alien,
            },
            b'*' | b'~' | b'>' | b'%' | b'|' => match number(rest) {
                Some(-1) => {}
                Some(count) => match u64::try_from(count) {
                    Ok(count) if matches!(kind, b'%' | b'|') => open += 2 * count,
                    Ok(count) => open += count,
                    Err(_) => return Frame::Alien,
                },
                None => return Frame::Alien,
            },
            _ => return Frame::Alien,
        }
        if at > bytes.len() {
            return Frame::Partial;
        }
    }
    Frame::Whole(at)
}

fn number(digits: &[u8]) -> Option<i64> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_is_measured_to_its_last_byte() {
        for reply in [
            "+OK\r\n",
            "-ERR no\r\n",
            ":12\r\n",
            "$5\r\nhel\r\n\r\n",
            "$-1\r\n",
            "*-1\r\n",
            "*0\r\n",
            "*2\r\n$1\r\na\r\n*2\r\n:1\r\n+x\r\n",
            "%1\r\n+k\r\n:1\r\n",
            "_\r\n",
        ] {
            let two = format!("{reply}+next\r\n");
            assert_eq!(first_reply(two.as_bytes()), Frame::Whole(reply.len()), "{reply:?}");
            for cut in 0..reply.len() {
                assert_eq!(first_reply(&reply.as_bytes()[..cut]), Frame::Partial, "{reply:?} cut at {cut}");
            }
        }
    }

    #[test]
    fn other_protocols_are_told_apart() {
        assert_eq!(first_reply(b"HTTP/1.1 200 OK\r\n"), Frame::Alien);
        assert_eq!(first_reply(b"$x\r\n"), Frame::Alien);
        assert_eq!(first_reply(b"*-2\r\n"), Frame::Alien);
    }
}
