//! The parts of a request: names in the path, parameters and the body. An invalid part is refused by name.

mod body;
mod form;
mod given;
mod items;
mod lines;
mod query;

use body::MAX_BODY;
pub(crate) use body::{Whole, must_be_object, parsed};
use form::other_type;
pub(crate) use form::{EVENTS, Form, JSON, wants_events};
pub(crate) use given::GivenNames;
pub(crate) use items::Items;
pub(crate) use lines::Lines;
pub(crate) use query::Query;

use crate::problem::{Kind, Problem};
use crate::server::{Outgoing, Peer};
use crate::sessions::Caller;
use crate::state::{App, Scope};
use axum::RequestPartsExt as _;
use axum::body::Body;
use axum::extract::{FromRequest, RawPathParams, Request};
use axum::http::HeaderMap;
use axum::http::request::Parts;
use delayq::admin::Tag;
use delayq::{Group, Members, MessageId, Target, Topic};
use delayq_service::when::When;
use percent_encoding::percent_decode_str;
use std::fmt::Display;
use std::str::FromStr;

/// The form of a request that routes read.
pub(crate) struct Ask {
    names: Vec<(String, String)>,
    pub(crate) query: Query,
    pub(crate) headers: HeaderMap,
    pub(crate) caller: Caller,
    pub(crate) scope: Scope,
    body: Body,
    /// The connection: the way of an answer with a parcel, and the client.
    pub(crate) connection: Option<(Outgoing, Peer)>,
}

// === impl Ask ===

impl FromRequest<App> for Ask {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &App) -> Result<Self, Problem> {
        let (mut parts, body) = request.into_parts();
        let (names, query) = match parts.extensions.remove::<GivenNames>() {
            Some(given) => (given.names, given.query),
            None => (names_of(&mut parts).await?, parts.extensions.remove::<Query>().unwrap_or_default()),
        };
        let scope = Scope::of(app, &parts.extensions);
        let caller = parts.extensions.remove::<Caller>().unwrap_or(Caller::NOBODY);
        let connection = parts.extensions.remove::<Outgoing>().zip(parts.extensions.remove::<Peer>());
        Ok(Self { names, query, headers: parts.headers, caller, scope, body, connection })
    }
}

impl Ask {
    pub(crate) fn topic(&self) -> Result<Topic, Problem> {
        self.name("topic")
    }

    pub(crate) fn group(&self) -> Result<Group, Problem> {
        self.name("group")
    }

    /// All topics, or `?topic=`.
    pub(crate) fn members(&self) -> Result<Members, Problem> {
        Ok(Members { group: self.group()?, topic: self.query.get("topic")? })
    }

    pub(crate) fn id(&self) -> Result<MessageId, Problem> {
        self.name("id")
    }

    pub(crate) fn target(&self) -> Result<Target, Problem> {
        Ok(Target { id: self.id()?, group: self.query.get("group")? })
    }

    /// The tag of `If-Match`: of a message, alone or with the rest of its ETag. `None`: without, or for any message.
    pub(crate) fn expected(&self) -> Result<Option<Tag>, Problem> {
        let Some(text) = self.header("if-match")?.map(str::trim).filter(|text| *text != "*") else {
            return Ok(None);
        };
        let inside = text.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
        let stay = inside.map(|tag| tag.splitn(3, '-').take(2).collect::<Vec<_>>().join("-"));
        let tag = stay.unwrap_or_default().parse().map_err(|why| Problem::invalid("if-match", why))?;
        Ok(Some(tag))
    }

    pub(crate) fn operation(&self) -> Result<String, Problem> {
        self.name("operation")
    }

    pub(crate) fn past_ok(&self) -> Result<bool, Problem> {
        Ok(self.query.get("past_ok")?.unwrap_or(false))
    }

    pub(crate) fn form(&self) -> Form {
        Form::of(&self.headers)
    }

    /// At most once, as text.
    pub(crate) fn header(&self, name: &'static str) -> Result<Option<&str>, Problem> {
        let mut values = self.headers.get_all(name).iter();
        let (value, more) = (values.next(), values.next());
        if more.is_some() {
            return Err(Problem::invalid(name, "given twice"));
        }
        let text = value.map(|value| std::str::from_utf8(value.as_bytes())).transpose();
        text.map_err(|_| Problem::invalid(name, "not UTF-8"))
    }

    pub(crate) async fn whole(self) -> Result<Whole, Problem> {
        Whole::read(self.body, &self.headers, &self.scope, MAX_BODY).await
    }

    pub(crate) fn lines(self) -> Result<Lines, Problem> {
        match self.form() {
            Form::Ndjson => Lines::of(self.body, &self.scope),
            _ => Err(other_type("application/x-ndjson, or events")),
        }
    }

    pub(crate) async fn json<T: serde::de::DeserializeOwned>(self) -> Result<T, Problem> {
        match self.form() {
            Form::Json => Whole::read(self.body, &self.headers, &self.scope, MAX_BODY).await?.json(),
            _ => Err(other_type(JSON)),
        }
    }

    /// As [`Self::json`]; without a body, the default.
    pub(crate) async fn json_or_default<T>(self) -> Result<T, Problem>
    where
        T: serde::de::DeserializeOwned + Default,
    {
        if axum::body::HttpBody::is_end_stream(&self.body) { Ok(T::default()) } else { self.json().await }
    }

    /// An array, or lines.
    pub(crate) async fn items(self) -> Result<Items, Problem> {
        match self.form() {
            Form::Event | Form::Events | Form::Other => {
                Err(other_type("application/json or application/x-ndjson"))
            }
            form => Items::read(form, Whole::read(self.body, &self.headers, &self.scope, MAX_BODY).await?),
        }
    }

    /// An array of events.
    pub(crate) async fn events(self) -> Result<Items, Problem> {
        Items::read(Form::Events, Whole::read(self.body, &self.headers, &self.scope, MAX_BODY).await?)
    }

    pub(crate) fn name<T: FromStr<Err: Display>>(&self, name: &str) -> Result<T, Problem> {
        let text = self.names.iter().find(|(known, _)| known == name).map(|(_, text)| text.as_str());
        text.unwrap_or_default().parse().map_err(|error| Problem::invalid(name, error))
    }
}

/// The names in the path. A topic may be encoded twice, since clients and proxies remove `.` and `..` that are encoded once.
async fn names_of(parts: &mut Parts) -> Result<Vec<(String, String)>, Problem> {
    let names = parts.extract::<RawPathParams>().await;
    let names = names.map_err(|error| Problem::new(Kind::Malformed, format!("the path: {error}")))?;
    let decoded = |name: &str, value: &str| match name {
        "topic" => percent_decode_str(value).decode_utf8_lossy().into_owned(),
        _ => value.to_owned(),
    };
    Ok(names.iter().map(|(name, value)| (name.to_owned(), decoded(name, value))).collect())
}

/// Independent of the place of the sender.
pub(crate) fn when(pointer: &str, text: &str) -> Result<When, Problem> {
    When::anywhere(text).map_err(|why| Problem::invalid(pointer, why))
}
