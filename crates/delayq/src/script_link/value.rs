//! Answers of Redis as values of the protocol.

use delayq_core::reply::Value;

pub(super) fn of_redis(value: redis::Value) -> Value {
    match value {
        redis::Value::Nil => Value::Nil,
        redis::Value::Int(number) => Value::Number(number),
        redis::Value::BulkString(bytes) => Value::Bytes(bytes),
        redis::Value::SimpleString(text) => Value::Bytes(text.into_bytes()),
        redis::Value::Okay => Value::Bytes(b"OK".to_vec()),
        redis::Value::Array(items) => Value::Array(items.into_iter().map(of_redis).collect()),
        other => Value::Other(format!("{other:?}")),
    }
}
