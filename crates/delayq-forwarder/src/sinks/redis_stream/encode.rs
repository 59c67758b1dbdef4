//! One parcel as one XADD.

use super::RedisStreamConfig;
use crate::{
    Parcel,
    template::{Template, Values, Variable},
};
use redis::Cmd;

/// The fields of a configuration, read once.
pub(super) struct Fields(Vec<(String, Template)>);

struct Of<'a>(&'a Parcel);

// === impl Fields ===

impl Fields {
    pub(super) fn new(config: &RedisStreamConfig) -> Result<Self, String> {
        let fields = config.fields.iter().map(|(name, text)| Ok((name.clone(), Template::new(text)?)));
        Ok(Self(fields.collect::<Result<_, String>>()?))
    }

    /// The command that appends a parcel.
    pub(super) fn command(&self, config: &RedisStreamConfig, parcel: &Parcel) -> Cmd {
        let fields = 12 + parcel.headers.len() + self.0.len();
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
        for (name, template) in &self.0 {
            if let Ok(value) = template.render(&Of(parcel)) {
                command.arg(name).arg(value);
            }
        }
        command
    }
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
