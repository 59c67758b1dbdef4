//! The output of each encoding.

use super::*;
use bytes::Bytes;
use delayq::UnixMillis;
use delayq::protocol::UnixMicros;
use serde_json::{Value, json};

fn parcel(body: &[u8], headers: &[(&str, &str)]) -> Parcel {
    Parcel {
        destination: "d".to_owned(),
        key: None,
        partition: None,
        headers: headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
        body: Bytes::copy_from_slice(body),
        about: About {
            id: "17".to_owned(),
            topic: "orders".to_owned(),
            group: Some("user-5".to_owned()),
            due: UnixMillis::new(1_763_697_600_123),
            ready: UnixMicros(1_763_697_600_123_456),
            attempt: 1,
            delivery: 2,
            identity: "orders/17".to_owned(),
        },
    }
}

#[test]
fn a_structured_event_holds_its_data_by_kind() {
    for (body, headers, key, value) in [
        (&b"{\"a\":1}"[..], &[][..], "data", json!({"a": 1})),
        (b"{\"a\":1}", &[("Content-Type", "text/plain")], "data", json!("{\"a\":1}")),
        (b"text", &[], "data", json!("text")),
        (b"\xff\x00", &[], "data_base64", json!("/wA=")),
    ] {
        let parcel = structured(parcel(body, headers));
        let event: Value = serde_json::from_slice(&parcel.body).unwrap();
        assert_eq!(event[key], value);
        assert_eq!(
            (&event["specversion"], &event["id"], &event["source"], &event["type"], &event["subject"]),
            (
                &json!("1.0"),
                &json!("17"),
                &json!("/delayq/orders#user%2D5"),
                &json!("orders"),
                &json!("user-5")
            )
        );
        assert_eq!(parcel.header("content-type"), Some(STRUCTURED_EVENT));
    }
}

#[test]
fn a_binary_event_keeps_the_body_and_carries_the_trace() {
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let parcel = binary(parcel(b"body", &[("traceparent", trace), ("ce-id", "forged")]), "ce-");
    assert_eq!(&parcel.body[..], b"body");
    assert_eq!(parcel.header("traceparent"), Some(trace));
    assert_eq!(parcel.header("ce-traceparent"), Some(trace));
    assert_eq!(parcel.header("ce-id"), Some("17"));
    assert_eq!(parcel.header("ce-time"), Some("2025-11-21T04:00:00.123Z"));
}

#[test]
fn a_message_that_was_put_as_an_event_leaves_as_that_event() {
    let event = [
        ("ce-specversion", "1.0"),
        ("ce-id", "e1"),
        ("ce-source", "/shop"),
        ("ce-type", "order.timeout"),
        ("ce-time", "2025-01-01T00:00:00Z"),
        ("ce-region", "eu"),
    ];
    let headers = [&event[..], &[("content-type", "application/json"), ("x-more", "1")]].concat();
    for prefix in ["ce-", "ce_", "cloudEvents:"] {
        let parcel = binary(parcel(b"{}", &headers), prefix);
        let found: Vec<(&str, &str)> = parcel.headers.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
        let attributes = event.map(|(name, value)| (name.replace("ce-", prefix), value));
        let kept = [("content-type", "application/json"), ("x-more", "1")];
        let of_event = attributes.iter().map(|(name, value)| (name.as_str(), *value));
        assert_eq!(found, kept.into_iter().chain(of_event).collect::<Vec<_>>());
    }
    let parcel = structured(parcel(br#"{"n":12345678901234567890.125}"#, &headers));
    let document = r#"{"datacontenttype":"application/json","id":"e1","region":"eu","source":"/shop","specversion":"1.0","time":"2025-01-01T00:00:00Z","type":"order.timeout","data":{"n":12345678901234567890.125}}"#;
    assert_eq!(std::str::from_utf8(&parcel.body).unwrap(), document);
    let left = [("x-more", "1"), ("content-type", STRUCTURED_EVENT)];
    assert_eq!(parcel.headers, left.map(|(name, value)| (name.to_owned(), value.to_owned())));
}

#[test]
fn lateness_has_three_decimals() {
    let parcel = parcel(b"", &[]);
    let late =
        parcel.all_headers().find(|(name, _)| *name == "delayq-late-ms").map(|(_, value)| value.into_owned());
    assert_eq!(late.as_deref(), Some("0.456"));
}
