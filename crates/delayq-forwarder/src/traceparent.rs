//! The trace that a message belongs to, by its header `traceparent` (W3C Trace Context). Pure.

/// The id of the trace, where it is recorded: nobody could look up another.
pub(crate) fn recorded_trace(traceparent: &str) -> Option<&str> {
    let mut parts = traceparent.split('-');
    let (version, trace, span, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let is_hex = |part: &str, len: usize| {
        part.len() == len && part.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    };
    let is_id = |part: &str, len: usize| is_hex(part, len) && part.bytes().any(|byte| byte != b'0');
    // A later version may have more parts.
    let is_known = is_hex(version, 2) && version != "ff" && (version != "00" || parts.next().is_none());
    let is_sound = is_known && is_id(trace, 32) && is_id(span, 16) && is_hex(flags, 2);
    let is_recorded = is_sound && u8::from_str_radix(flags, 16).is_ok_and(|flags| flags & 1 == 1);
    is_recorded.then_some(trace)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

    #[test]
    fn a_trace_is_taken_where_it_is_recorded_and_the_header_is_sound() {
        for sound in [
            "00-TRACE-00f067aa0ba902b7-01",
            "00-TRACE-00f067aa0ba902b7-03",
            "cc-TRACE-00f067aa0ba902b7-01-later",
        ] {
            assert_eq!(recorded_trace(&sound.replace("TRACE", TRACE)), Some(TRACE), "{sound}");
        }
        for other in [
            "00-TRACE-00f067aa0ba902b7-00",
            "00-TRACE-00f067aa0ba902b7-01-more",
            "ff-TRACE-00f067aa0ba902b7-01",
            "00-TRACE-0000000000000000-01",
            "00-TRACE-00f067aa0ba902b7-0g",
            "00-TRACE",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "00-trace",
            "",
        ] {
            assert_eq!(recorded_trace(&other.replace("TRACE", TRACE)), None, "{other}");
        }
    }
}
