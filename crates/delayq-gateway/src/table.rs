//! Every route, with its parameters, bodies and answers. The router, the checks of parameters and headers, and the OpenAPI document
//! are made of the table, so they cannot differ.

mod entries;

pub(crate) use entries::{DESCRIBING, ROUTES};

use crate::rights::Right;

/// The header with the longest time that a client waits.
pub(crate) const DEADLINE: &str = "delayq-deadline";
/// The prefix of headers that become headers of the message.
pub(crate) const MESSAGE_HEADER: &str = "delayq-header-";
#[derive(Debug)]
pub(crate) struct Route {
    /// In metrics and in the document.
    pub(crate) name: &'static str,
    pub(crate) method: Method,
    pub(crate) path: &'static str,
    pub(crate) summary: &'static str,
    pub(crate) query: &'static [&'static str],
    /// Headers that ask for something, in addition to the deadline's.
    pub(crate) asks: &'static [&'static str],
    /// True if any header that begins with `delayq-header-` is accepted.
    pub(crate) takes_message_headers: bool,
    pub(crate) takes: Takes,
    pub(crate) answers: RouteAnswers,
    /// Statuses of refusals, in addition to those of every route.
    pub(crate) refuses: &'static [u16],
    /// True if requests need no token.
    pub(crate) is_public: bool,
    /// The right that a token needs; `None`: any token will do.
    pub(crate) needs: Option<Right>,
    /// True if the answer is about the whole deployment: not for a token of a tenant.
    pub(crate) is_whole: bool,
    pub(crate) has_deadline: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    Get,
    Put,
    Post,
    Patch,
    Delete,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Takes {
    Nothing,
    Json(&'static str),
    /// As [`Self::Json`], and may be missing.
    MaybeJson(&'static str),
    /// A message as JSON or as an event, or its payload as any other type.
    Message,
    /// Lines of NDJSON of this schema, without an end; an event, or an array of them.
    LinesOrEvents(&'static str),
    /// An array, or lines of NDJSON, of up to 500 items of this schema.
    Many(&'static str),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RouteAnswers {
    /// 204
    Nothing,
    /// JSON of this schema, with these statuses.
    Json(&'static str, &'static [u16]),
    /// An answer for each line, as NDJSON; to one event, JSON of the second schema, with these statuses.
    LinesOr(&'static str, &'static str, &'static [u16]),
    /// An answer for each item, in the form of the request.
    Many(&'static str),
    /// The bytes of a payload.
    Bytes,
    /// 101: frames of these schemas, from the client and to the client.
    Frames(&'static str, &'static str),
}

// === impl Route ===

impl Route {
    /// A route without parameters, bodies and refusals of its own. It needs the right to read, or else to manage.
    pub(crate) const fn new(
        method: Method,
        path: &'static str,
        name: &'static str,
        summary: &'static str,
    ) -> Self {
        Self {
            name,
            method,
            path,
            summary,
            query: &[],
            asks: &[],
            takes_message_headers: false,
            takes: Takes::Nothing,
            answers: RouteAnswers::Nothing,
            refuses: &[],
            is_public: false,
            needs: Some(if matches!(method, Method::Get) { Right::Read } else { Right::Manage }),
            is_whole: false,
            has_deadline: true,
        }
    }

    /// True if each request of the route is an action.
    pub(crate) fn acts(&self) -> bool {
        matches!(self.needs, Some(Right::Act | Right::Manage)) && self.method != Method::Get
    }

    pub(crate) fn takes_header(&self, name: &str) -> bool {
        (self.has_deadline && name == DEADLINE)
            || self.asks.contains(&name)
            || (self.takes_message_headers && name.starts_with(MESSAGE_HEADER))
    }

    /// The headers that the route reads, for people.
    pub(crate) fn headers(&self) -> Vec<&'static str> {
        let deadline = self.has_deadline.then_some(DEADLINE);
        let any = self.takes_message_headers.then_some("delayq-header-NAME");
        deadline.into_iter().chain(self.asks.iter().copied()).chain(any).collect()
    }
}
