//! A delivery as one JSON document, as the sinks `file`, `stdout` and, into lists, `redis` write it.

use crate::Parcel;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use std::collections::BTreeMap;

#[derive(Serialize)]
struct Record<'a> {
    id: &'a str,
    topic: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<&'a str>,
    due: u64,
    ready: u64,
    late_ms: f64,
    attempt: u16,
    delivery: u32,
    headers: BTreeMap<&'a str, &'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_base64: Option<String>,
}

pub(super) const HEAD: &[u8] = b"{\"id\":\"";

/// True if these bytes can begin a partially written line.
pub(super) fn may_begin_with(bytes: &[u8]) -> bool {
    bytes.starts_with(HEAD) || HEAD.starts_with(bytes)
}

pub(super) fn append_line(parcel: &Parcel, out: &mut Vec<u8>) {
    append(parcel, out);
    out.push(b'\n');
}

pub(super) fn json(parcel: &Parcel) -> Vec<u8> {
    let mut out = Vec::new();
    append(parcel, &mut out);
    out
}

fn append(parcel: &Parcel, out: &mut Vec<u8>) {
    let about = &parcel.about;
    let text = std::str::from_utf8(&parcel.body).ok();
    let record = Record {
        id: &about.id,
        topic: &about.topic,
        group: about.group.as_deref(),
        due: about.due.get(),
        ready: about.ready.millis().get(),
        late_ms: about.late_ms(),
        attempt: about.attempt,
        delivery: about.delivery,
        headers: parcel.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect(),
        payload: text,
        payload_base64: text.is_none().then(|| STANDARD.encode(&parcel.body)),
    };
    serde_json::to_writer(out, &record).expect("strings and numbers have a JSON form");
}
