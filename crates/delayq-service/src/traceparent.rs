//! The trace of a message, from its header `traceparent` (W3C Trace Context). Pure.

use std::fmt;

/// The name of the header.
pub const TRACEPARENT: &str = "traceparent";

/// A span of a recorded trace, as the header names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceParent {
    /// The id of the trace.
    pub trace: u128,
    /// The id of the span.
    pub span: u64,
    flags: u8,
}

/// The known flags: recorded, and a random trace id.
const KNOWN_FLAGS: u8 = 0b11;

// === impl TraceParent ===

impl TraceParent {
    /// Reads the header if its trace is recorded: an unrecorded trace cannot be looked up.
    #[must_use]
    pub fn recorded(header: &str) -> Option<Self> {
        let mut parts = header.split('-');
        let (version, trace, span, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        let is_hex = |part: &str, len: usize| {
            part.len() == len && part.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
        };
        // A later version may have more parts.
        let is_known = is_hex(version, 2) && version != "ff" && (version != "00" || parts.next().is_none());
        if !is_known || !is_hex(trace, 32) || !is_hex(span, 16) || !is_hex(flags, 2) {
            return None;
        }
        let trace = u128::from_str_radix(trace, 16).ok()?;
        let span = u64::from_str_radix(span, 16).ok()?;
        let flags = u8::from_str_radix(flags, 16).ok()? & KNOWN_FLAGS;
        (trace != 0 && span != 0 && flags & 1 == 1).then_some(Self { trace, span, flags })
    }

    /// Another span of the same trace, with a fresh id.
    #[must_use]
    pub fn another(self) -> Self {
        Self { span: fastrand::u64(1..), ..self }
    }

    /// The id of the trace in the form for looking up.
    #[must_use]
    pub fn trace_id(self) -> String {
        format!("{:032x}", self.trace)
    }
}

impl fmt::Display for TraceParent {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "00-{:032x}-{:016x}-{:02x}", self.trace, self.span, self.flags)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "0bf92f3577b34da6a3ce929d0e0e4736";

    fn read(header: &str) -> Option<TraceParent> {
        TraceParent::recorded(&header.replace("TRACE", TRACE))
    }

    #[test]
    fn a_trace_is_taken_where_it_is_recorded_and_the_header_is_sound() {
        for sound in [
            "00-TRACE-00f067aa0ba902b7-01",
            "00-TRACE-00f067aa0ba902b7-03",
            "cc-TRACE-00f067aa0ba902b7-01-later",
        ] {
            assert_eq!(read(sound).map(TraceParent::trace_id).as_deref(), Some(TRACE), "{sound}");
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
            assert_eq!(read(other), None, "{other}");
        }
    }

    #[test]
    fn it_is_written_as_this_version_writes_it() {
        for (header, written) in [
            ("00-TRACE-00f067aa0ba902b7-03", "00-TRACE-00f067aa0ba902b7-03"),
            ("cc-TRACE-00f067aa0ba902b7-ff-later", "00-TRACE-00f067aa0ba902b7-03"),
        ] {
            assert_eq!(read(header).unwrap().to_string(), written.replace("TRACE", TRACE));
        }
    }

    #[test]
    fn another_span_of_a_trace_is_another_span_of_the_same_trace() {
        let put = read("00-TRACE-00f067aa0ba902b7-01").unwrap();
        let other = put.another();
        assert_eq!(TraceParent { span: put.span, ..other }, put);
        assert!(![0, put.span].contains(&other.span));
    }
}
