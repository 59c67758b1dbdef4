//! One parcel as one push.

use super::{
    RedisListConfig,
    config::{Element, End},
};
use crate::{Parcel, sinks::file};
use redis::Cmd;

/// The command that pushes a parcel.
pub(super) fn command(config: &RedisListConfig, parcel: &Parcel) -> Cmd {
    let mut command = Cmd::new();
    command.arg(match config.end {
        End::Right => "RPUSH",
        End::Left => "LPUSH",
    });
    command.arg(&parcel.destination);
    match config.element {
        Element::Payload => command.arg(&parcel.body[..]),
        Element::Record => {
            let mut line = Vec::new();
            file::encode::append(parcel, &mut line);
            line.pop();
            command.arg(line)
        }
    };
    command
}
