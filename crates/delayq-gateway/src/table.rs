//! Every route, with its parameters, bodies and answers. The router, the checks of parameters and headers, and the OpenAPI document
//! are made of the table, so they cannot differ.

mod entries;

pub(crate) use entries::{DESCRIBING, ROUTES};

use crate::rights::Right;

/// The header with the longest time that a client waits.
pub(crate) const DEADLINE: &str = "delayq-deadline";
/// The prefix of headers that become headers of the message.
pub(crate) const MESSAGE_HEADER: &str = "delayq-header-";
#[derive(Clone, Copy, Debug)]
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

#[derive(Clone, Copy, Debug)]
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
    /// The names and the parameters of this route, together with the keys of its body.
    Names(&'static Route),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RouteAnswers {
    /// 204
    Nothing,
    /// JSON of this schema, with these statuses.
    Json(&'static str, &'static [u16]),
    /// JSON of this schema; or, where `Accept` says so, an array of events of the second schema.
    JsonOrEvents(&'static str, &'static str),
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
        matches!(self.needs, Some(Right::Act | Right::Manage)) && self.original().method != Method::Get
    }

    /// The names in the path.
    pub(crate) fn names(&self) -> impl Iterator<Item = &'static str> {
        self.path.split('/').filter_map(|segment| segment.strip_prefix('{')?.strip_suffix('}'))
    }

    /// The route that does what this one does, with names in its path.
    pub(crate) fn original(&self) -> &Self {
        if let Takes::Names(original) = self.takes { original } else { self }
    }

    /// The same route with its names in the body: clients and proxies change `.`, `..` and `%2F` in a path. `None`: the path has no
    /// free names, or the body is a message, which `/v1/messages` takes with its names.
    fn by_body(&'static self) -> Option<Self> {
        let is_named = self.names().any(|name| matches!(name, "topic" | "group"));
        if !is_named || matches!(self.takes, Takes::Message) {
            return None;
        }
        let (method, ending) = match self.method {
            Method::Get => (Method::Post, "/get"),
            Method::Delete => (Method::Post, "/delete"),
            method => (method, ""),
        };
        let path =
            self.names().fold(self.path.to_owned(), |path, name| path.replace(&format!("s/{{{name}}}"), ""));
        Some(Self {
            name: format!("{}ByBody", self.name).leak(),
            method,
            path: (path + ending).leak(),
            summary: format!("{}; with the names in the body", self.summary).leak(),
            query: &[],
            // RFC 9110 has no 304 for a POST.
            asks: if self.method == Method::Get { &[] } else { self.asks },
            takes: Takes::Names(self),
            refuses: [self.refuses, &[408, 413, 415, 422]].concat().leak(),
            ..*self
        })
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
