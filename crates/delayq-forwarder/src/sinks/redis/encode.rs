//! One parcel as one XADD or push.

use super::{Element, RedisForm, RedisSinkConfig};
use crate::Parcel;
use crate::sinks::record;
use redis::Cmd;

pub(super) fn command(config: &RedisSinkConfig, parcel: &Parcel) -> Cmd {
    match config.form {
        RedisForm::Stream => entry(config, parcel),
        RedisForm::List => push("RPUSH", config.element, parcel),
        RedisForm::ListLeft => push("LPUSH", config.element, parcel),
    }
}

fn push(verb: &str, element: Element, parcel: &Parcel) -> Cmd {
    let mut command = redis::cmd(verb);
    command.arg(&parcel.destination);
    match element {
        Element::Payload => command.arg(&parcel.body[..]),
        Element::Record => command.arg(record::json(parcel)),
    };
    command
}

fn entry(config: &RedisSinkConfig, parcel: &Parcel) -> Cmd {
    let fields = 12 + parcel.headers.len() + config.fields.len();
    let mut command = Cmd::with_capacity(2 * fields, parcel.body.len() + 32 * fields);
    command.arg("XADD").arg(&parcel.destination);
    if !config.create {
        command.arg("NOMKSTREAM");
    }
    if let Some(length) = config.max_len {
        command.arg("MAXLEN").arg("~").arg(length);
    }
    command.arg("*").arg("payload").arg(&parcel.body[..]);
    for (name, value) in parcel.all_headers() {
        command.arg(name).arg(value.as_ref());
    }
    for (name, template) in &config.fields {
        if let Ok(value) = template.render(&parcel.about, &parcel.headers) {
            command.arg(name).arg(value);
        }
    }
    command
}
