//! A body that is read as a whole, within a size and a time, and only while the gateway has room for it.

use crate::problem::{Kind, Problem};
use crate::state::{Room, Scope};
use axum::body::{Body, BodyDataStream};
use axum::http::{HeaderMap, header};
use bytes::{Bytes, BytesMut};
use delayq::Fate;
use futures_util::StreamExt as _;
use futures_util::future::poll_immediate;
use std::pin::pin;
use std::time::Duration;

/// Maximum bytes of a body, and of a line: twice the largest payload in base64, with room for the rest.
pub(crate) const MAX_BODY: usize = 2 * 1024 * 1024;

/// Maximum bytes that are read and dropped after a refusal.
const MAX_DISCARDED: usize = 64 * 1024 * 1024;

/// The room is taken until dropped.
#[derive(Debug)]
pub(crate) struct Whole {
    pub(crate) bytes: Bytes,
    _room: Room,
}

// === impl Whole ===

impl Whole {
    /// Fails if the body is too large, too slow or cut off, or the gateway is full.
    pub(crate) async fn read(
        body: Body,
        headers: &HeaderMap,
        scope: &Scope,
        most: usize,
    ) -> Result<Self, Problem> {
        let length = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok());
        let length = length.map_or(Ok(most), str::parse);
        let length = length.map_err(|_| Problem::new(Kind::Malformed, "Content-Length is not a number"))?;
        let mut data = body.into_data_stream();
        if length > most {
            discard(data, scope.body_timeout());
            return Err(too_large(most));
        }
        let room = scope.room(length)?;
        match at_its_pace(&mut data, scope, most).await {
            Ok(bytes) => Ok(Self { bytes, _room: room }),
            Err(problem) => {
                discard(data, scope.body_timeout());
                Err(problem)
            }
        }
    }

    /// For at most `limit`.
    pub(crate) fn discard(body: Body, limit: Duration) {
        if !axum::body::HttpBody::is_end_stream(&body) {
            discard(body.into_data_stream(), limit);
        }
    }

    pub(crate) fn json<T: serde::de::DeserializeOwned>(&self) -> Result<T, Problem> {
        parsed(&self.bytes)
    }
}

/// An object of JSON. Serde would also take an array for a struct, its fields in their order.
pub(crate) fn parsed<T: serde::de::DeserializeOwned>(text: &[u8]) -> Result<T, Problem> {
    must_be_object(text)?;
    let mut reading = serde_json::Deserializer::from_slice(text);
    let value = serde_path_to_error::deserialize(&mut reading);
    let value = value.map_err(|error| match error.path().to_string().as_str() {
        "." => faulty(error.inner()),
        path if error.inner().is_data() => Problem::invalid(path, without_place(error.inner())),
        _ => faulty(error.inner()),
    })?;
    reading.end().map_err(|error| faulty(&error))?;
    Ok(value)
}

/// Refuses JSON that is not an object.
pub(crate) fn must_be_object(text: &[u8]) -> Result<(), Problem> {
    let is_json = || serde_json::from_slice::<serde::de::IgnoredAny>(text).is_ok();
    match text.trim_ascii_start().first() {
        Some(b'{') => Ok(()),
        _ if is_json() => Err(Problem::new(Kind::Invalid, "must be a JSON object")),
        _ => Ok(()),
    }
}

pub(super) fn faulty(error: &serde_json::Error) -> Problem {
    match error.is_data() {
        true => Problem::new(Kind::Invalid, without_place(error)),
        false => Problem::new(Kind::Malformed, format!("this is not JSON: {error}")),
    }
}

/// Senders know their keys, and do not count columns.
fn without_place(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.rsplit_once(" at line ").map_or(text.as_str(), |(what, _)| what).to_owned()
}

pub(super) fn too_large(most: usize) -> Problem {
    Problem::new(Kind::TooLarge, format!("at most {most} bytes are allowed")).fate(Fate::NotApplied)
}

pub(super) fn too_slow(what: &str, limit: Duration) -> Problem {
    Problem::new(Kind::TooSlow, format!("{what} did not arrive within {limit:?}")).fate(Fate::NotApplied)
}

pub(super) fn cut_off(error: &axum::Error) -> Problem {
    Problem::new(Kind::Malformed, format!("the body ended early: {error}")).fate(Fate::NotApplied)
}

/// Reads and drops what a client still sends: closing the connection instead would reset it, and the client could not read
/// its answer.
pub(super) fn discard(mut data: BodyDataStream, limit: Duration) {
    let all = async move {
        let mut left = MAX_DISCARDED;
        while let Some(Ok(part)) = data.next().await
            && left > 0
        {
            left = left.saturating_sub(part.len());
        }
    };
    tokio::spawn(tokio::time::timeout(limit, all));
}

/// A slow client takes no turn from other clients of the tenant.
async fn at_its_pace(data: &mut BodyDataStream, scope: &Scope, most: usize) -> Result<Bytes, Problem> {
    let mut reading = pin!(tokio::time::timeout(scope.body_timeout(), all(data, most)));
    let read = match poll_immediate(reading.as_mut()).await {
        Some(read) => read,
        None => {
            scope.yield_turn();
            reading.await
        }
    };
    let bytes = read.unwrap_or_else(|_| Err(too_slow("the body", scope.body_timeout())))?;
    scope.take_turn(bytes.len()).await?;
    Ok(bytes)
}

async fn all(data: &mut BodyDataStream, most: usize) -> Result<Bytes, Problem> {
    let mut all = BytesMut::new();
    while let Some(part) = data.next().await {
        let part = part.map_err(|error| cut_off(&error))?;
        if all.len() + part.len() > most {
            return Err(too_large(most));
        }
        all.extend_from_slice(&part);
    }
    Ok(all.freeze())
}
