//! One parcel as one XADD.

use super::RedisStreamConfig;
use crate::Parcel;
use redis::Cmd;

pub(super) fn command(config: &RedisStreamConfig, parcel: &Parcel) -> Cmd {
    let fields = 12 + parcel.headers.len() + config.fields.len();
    let mut command = Cmd::with_capacity(2 * fields, parcel.body.len() + 32 * fields);
    command.arg("XADD").arg(&parcel.destination);
    if !config.create {
        command.arg("NOMKSTREAM");
    }
    if let Some(length) = config.max_len {
        command.arg("MAXLEN").arg("~").arg(length);
    }
    command.arg("*").arg(&config.payload_field).arg(&parcel.body[..]);
    if config.header_fields {
        for (name, value) in parcel.all_headers() {
            command.arg(name).arg(value.as_ref());
        }
    }
    for (name, template) in &config.fields {
        if let Ok(value) = template.render(&parcel.about, &parcel.headers) {
            command.arg(name).arg(value);
        }
    }
    command
}
