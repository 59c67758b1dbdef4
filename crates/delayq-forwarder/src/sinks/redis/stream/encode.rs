//! One parcel as one XADD.

use super::RedisStreamConfig;
use crate::Parcel;
use crate::template::{Values, Variable};
use redis::Cmd;

struct Of<'a>(&'a Parcel);

/// The command that appends a parcel.
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
        if let Ok(value) = template.render(&Of(parcel)) {
            command.arg(name).arg(value);
        }
    }
    command
}

impl Values for Of<'_> {
    fn value(&self, variable: &Variable) -> Option<String> {
        let about = &self.0.about;
        match variable {
            Variable::Id => Some(about.id.clone()),
            Variable::Topic => Some(about.topic.clone()),
            Variable::Group => about.group.clone(),
            Variable::Due => Some(about.due.to_string()),
            Variable::Attempt => Some(about.attempt.to_string()),
            Variable::Header(name) => self.0.header(name).map(str::to_owned),
        }
    }
}
