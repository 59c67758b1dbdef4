//! The causes of a stream's end, and the codes of close frames (RFC 6455, 7.4).

use super::ask::MAX_FRAME;
use crate::problem::{Kind, Problem};
use axum::Error;
use axum::extract::ws::{CloseFrame, close_code};
use std::borrow::Cow;
use tokio_tungstenite::tungstenite::Error as WsError;

/// With the status of a refusal added.
const OF_STATUS: u16 = 4000;
const TRY_AGAIN_LATER: u16 = 1013;
/// Never sent: the connection is gone.
const ABNORMAL: u16 = 1006;

#[derive(Debug)]
pub(super) enum Closing {
    /// The client has sent a close frame.
    ByClient,
    /// The client is gone, or takes no bytes any more.
    Gone,
    Stopping,
    Silent,
    Binary,
    NotText,
    TooLarge,
    Malformed,
    /// The client may not go on.
    Refused(Problem),
}

// === impl Closing ===

impl Closing {
    pub(super) fn of(error: Error) -> Self {
        match error.into_inner().downcast::<WsError>().map(|error| *error) {
            Ok(WsError::Capacity(_)) => Self::TooLarge,
            Ok(WsError::Utf8(_)) => Self::NotText,
            Ok(WsError::Protocol(error)) if !is_reset(&error) => Self::Malformed,
            _ => Self::Gone,
        }
    }

    pub(super) fn code(&self) -> u16 {
        match self {
            Self::ByClient => close_code::NORMAL,
            Self::Gone => ABNORMAL,
            Self::Stopping => close_code::AWAY,
            Self::Silent => close_code::POLICY,
            Self::Binary => close_code::UNSUPPORTED,
            Self::NotText => close_code::INVALID,
            Self::TooLarge => close_code::SIZE,
            Self::Malformed => close_code::PROTOCOL,
            Self::Refused(problem) if problem.kind().is_passing() => TRY_AGAIN_LATER,
            Self::Refused(problem) => OF_STATUS + problem.kind().status().as_u16(),
        }
    }

    /// `None`: nobody would read a close frame.
    pub(super) fn frame(&self) -> Option<CloseFrame> {
        let reason: Cow<'static, str> = match self {
            Self::ByClient | Self::Gone => return None,
            Self::Stopping => of_kind(Kind::Draining),
            Self::Silent => "nothing came from the client, no pong either".into(),
            Self::Binary => "frames are text".into(),
            Self::NotText => "the frame is not UTF-8".into(),
            Self::TooLarge => format!("a frame has at most {MAX_FRAME} bytes").into(),
            Self::Malformed => "the frame breaks RFC 6455".into(),
            Self::Refused(problem) => of_kind(problem.kind()),
        };
        Some(CloseFrame { code: self.code(), reason: reason.as_ref().into() })
    }
}

fn is_reset(error: &tokio_tungstenite::tungstenite::error::ProtocolError) -> bool {
    use tokio_tungstenite::tungstenite::error::ProtocolError;
    matches!(error, ProtocolError::ResetWithoutClosingHandshake)
}

fn of_kind(kind: Kind) -> Cow<'static, str> {
    format!("{}: {}", kind.code(), kind.title()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_close_frame_fits_and_the_guide_has_its_code() {
        let guide = include_str!("../../../../../docs/guides/http.md");
        let refused = |kind| Closing::Refused(Problem::new(kind, ""));
        let all = [
            (Closing::ByClient, 1000),
            (Closing::Gone, 1006),
            (Closing::Stopping, 1001),
            (Closing::Silent, 1008),
            (Closing::Binary, 1003),
            (Closing::NotText, 1007),
            (Closing::TooLarge, 1009),
            (Closing::Malformed, 1002),
            (refused(Kind::RedisAway), 1013),
            (refused(Kind::NoToken), 4401),
            (refused(Kind::SessionEnded), 4401),
            (refused(Kind::NoRight), 4403),
        ];
        for (closing, code) in all {
            assert_eq!(closing.code(), code, "{closing:?}");
            assert!(guide.contains(&format!("| {code} | ")), "docs/guides/http.md lacks {code}");
            // A control frame has at most 125 bytes, and the code takes 2.
            assert!(closing.frame().is_none_or(|frame| frame.reason.len() <= 123), "{closing:?}");
        }
        for kind in Kind::ALL {
            assert!(refused(kind).frame().is_some_and(|frame| frame.reason.len() <= 123), "{kind:?}");
        }
    }
}
