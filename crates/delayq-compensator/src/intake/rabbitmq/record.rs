//! A delivery of AMQP as a record: every header as text, and AMQP's own properties. Pure.

use crate::intake::record::BrokerRecord;
use delayq::UnixMillis;
use jiff::Timestamp;
use lapin::BasicProperties;
use lapin::types::{AMQPValue, FieldTable};
use serde_json::Value;

/// The header in which a broker, if so configured, notes the time of receipt, to the millisecond.
const RECEIVED: &str = "timestamp_in_ms";
/// AMQP has timestamps in seconds, but many clients write milliseconds. As seconds, this is the year 5138; as milliseconds,
/// 1973.
const MILLIS_FROM: u64 = 100_000_000_000;

/// Reads a delivery.
pub(super) fn record(body: Vec<u8>, properties: &BasicProperties, is_repeat: bool) -> BrokerRecord {
    let table = properties.headers().iter().flat_map(FieldTable::inner);
    let mut headers: Vec<(String, Vec<u8>)> =
        table.map(|(name, value)| (name.to_string(), bytes(value))).collect();
    for (name, value) in [
        ("content-type", properties.content_type()),
        ("content-encoding", properties.content_encoding()),
        ("correlation-id", properties.correlation_id()),
        ("reply-to", properties.reply_to()),
        ("type", properties.kind()),
        ("app-id", properties.app_id()),
    ] {
        if let Some(value) = value
            && !headers.iter().any(|(own, _)| own.eq_ignore_ascii_case(name))
        {
            headers.push((name.to_owned(), value.as_str().into()));
        }
    }
    let id = properties.message_id().as_ref().map(ToString::to_string);
    BrokerRecord { headers, body, at: published(properties), id, is_repeat, ..BrokerRecord::default() }
}

/// The time of the broker's receipt, or else the producer's time of publication.
fn published(properties: &BasicProperties) -> Option<UnixMillis> {
    let received = properties.headers().as_ref().and_then(|table| match table.inner().get(RECEIVED)? {
        AMQPValue::LongLongInt(ms) => u64::try_from(*ms).ok(),
        _ => None,
    });
    received.or_else(|| properties.timestamp().map(millis)).map(UnixMillis::new)
}

fn millis(timestamp: u64) -> u64 {
    match timestamp {
        ..MILLIS_FROM => timestamp * 1000,
        ms => ms,
    }
}

/// A header's value as text; bytes stay unchanged.
fn bytes(value: &AMQPValue) -> Vec<u8> {
    match value {
        AMQPValue::LongString(text) => text.as_bytes().to_vec(),
        AMQPValue::ByteArray(bytes) => bytes.as_slice().to_vec(),
        AMQPValue::Void => Vec::new(),
        other => match json(other) {
            Value::String(text) => text.into_bytes(),
            value => value.to_string().into_bytes(),
        },
    }
}

/// Numbers and booleans unchanged, timestamps as RFC 3339, and composite values with all parts.
fn json(value: &AMQPValue) -> Value {
    match value {
        AMQPValue::Boolean(is) => (*is).into(),
        AMQPValue::ShortShortInt(number) => (*number).into(),
        AMQPValue::ShortShortUInt(number) => (*number).into(),
        AMQPValue::ShortInt(number) => (*number).into(),
        AMQPValue::ShortUInt(number) => (*number).into(),
        AMQPValue::LongInt(number) => (*number).into(),
        AMQPValue::LongUInt(number) => (*number).into(),
        AMQPValue::LongLongInt(number) => (*number).into(),
        AMQPValue::Float(number) => (*number).into(),
        AMQPValue::Double(number) => (*number).into(),
        AMQPValue::DecimalValue(number) => format!("{}e-{}", number.value, number.scale).into(),
        AMQPValue::ShortString(text) => text.as_str().into(),
        AMQPValue::LongString(text) => String::from_utf8_lossy(text.as_bytes()).into(),
        AMQPValue::ByteArray(bytes) => String::from_utf8_lossy(bytes.as_slice()).into(),
        AMQPValue::Timestamp(timestamp) => moment(millis(*timestamp)).into(),
        AMQPValue::FieldArray(array) => array.as_slice().iter().map(json).collect(),
        AMQPValue::FieldTable(table) => {
            table.inner().iter().map(|(name, value)| (name.to_string(), json(value))).collect()
        }
        AMQPValue::Void => Value::Null,
    }
}

/// RFC 3339, or the number if no calendar has that time.
fn moment(ms: u64) -> String {
    let at = i64::try_from(ms).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok());
    at.map_or_else(|| ms.to_string(), |at| at.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use lapin::types::{DecimalValue, FieldArray};

    fn with(headers: Vec<(&str, AMQPValue)>) -> BasicProperties {
        let mut table = FieldTable::default();
        for (name, value) in headers {
            table.insert(name.into(), value);
        }
        BasicProperties::default().with_headers(table)
    }

    #[test]
    fn a_value_of_each_type_is_text() {
        let mut nested = FieldTable::default();
        nested.insert("queue".into(), AMQPValue::LongString("a".into()));
        nested.insert("count".into(), AMQPValue::LongLongInt(2));
        let array = FieldArray::from(vec![AMQPValue::FieldTable(nested), AMQPValue::Void]);
        for (value, expected) in [
            (AMQPValue::LongString("30m".into()), "30m"),
            (AMQPValue::ShortString("short".into()), "short"),
            (AMQPValue::LongLongInt(4_102_444_800_000), "4102444800000"),
            (AMQPValue::LongInt(-5), "-5"),
            (AMQPValue::ShortShortUInt(5), "5"),
            (AMQPValue::Double(0.5), "0.5"),
            (AMQPValue::DecimalValue(DecimalValue { scale: 2, value: 1234 }), "1234e-2"),
            (AMQPValue::Boolean(true), "true"),
            (AMQPValue::Timestamp(4_102_444_800), "2100-01-01T00:00:00Z"),
            (AMQPValue::Timestamp(4_102_444_800_001), "2100-01-01T00:00:00.001Z"),
            (AMQPValue::Timestamp(u64::MAX), "18446744073709551615"),
            (AMQPValue::FieldArray(array), r#"[{"count":2,"queue":"a"},null]"#),
            (AMQPValue::Void, ""),
        ] {
            assert_eq!(String::from_utf8(bytes(&value)).unwrap(), expected, "{value:?}");
        }
        assert_eq!(bytes(&AMQPValue::ByteArray(vec![0xff].into())), [0xff], "bytes stay as they are");
    }

    #[test]
    fn properties_are_headers_unless_one_has_their_name() {
        let properties = with(vec![("Content-Type", AMQPValue::LongString("own".into()))])
            .with_content_type("application/json".into())
            .with_correlation_id("7".into())
            .with_message_id("order-17".into());
        let found = record(b"body".to_vec(), &properties, true);
        let header = |name: &str, value: &str| (name.to_owned(), value.as_bytes().to_vec());
        assert_eq!(
            found,
            BrokerRecord {
                headers: vec![header("Content-Type", "own"), header("correlation-id", "7")],
                body: b"body".to_vec(),
                at: None,
                id: Some("order-17".to_owned()),
                is_repeat: true,
                ..BrokerRecord::default()
            }
        );
    }

    #[test]
    fn a_record_was_published_when_the_broker_or_its_timestamp_says() {
        let received = || with(vec![(RECEIVED, AMQPValue::LongLongInt(1_700_000_000_123))]);
        for (properties, expected) in [
            (with(vec![]), None),
            (with(vec![]).with_timestamp(1_700_000_000), Some(1_700_000_000_000)),
            (with(vec![]).with_timestamp(1_700_000_000_123), Some(1_700_000_000_123)),
            (received().with_timestamp(1_600_000_000), Some(1_700_000_000_123)),
        ] {
            assert_eq!(record(Vec::new(), &properties, false).at, expected.map(UnixMillis::new));
        }
    }
}
