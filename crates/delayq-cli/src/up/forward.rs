//! `--forward TOPIC=DESTINATION`: messages that `delayq up` takes out of the ready queues at the user's request.

use delayq_forwarder::Pattern;
use std::fmt::Write as _;
use std::path::Path;
use std::str::FromStr;

const DELIVERED: &str = "delivered.ndjson";
const STREAM: &str = "delivered";

/// Topics, and the destination of the messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forward {
    topic: String,
    to: Destination,
    name: String,
}

/// Destinations that need no server of anybody else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Destination {
    File,
    /// Of the private Redis.
    Stream,
}

// === impl Forward ===

impl Forward {
    /// Returns whether the messages go to a stream of the private Redis.
    pub fn is_stream(&self) -> bool {
        self.to == Destination::Stream
    }

    /// Configuration text; files go into `folder`.
    pub(super) fn sections(forwards: &[Self], folder: &Path) -> String {
        let mut text = String::new();
        for to in [Destination::File, Destination::Stream] {
            if forwards.iter().any(|forward| forward.to == to) {
                text.push_str(&to.sink(folder));
            }
        }
        for Self { topic, to, name } in forwards {
            let (topic, sink, name) = (quoted(topic), quoted(to.sink_name()), quoted(name));
            write!(text, "\n[[routes]]\ntopic = {topic}\nsink = {sink}\nto = {name}\n")
                .expect("writing to a string cannot fail");
        }
        text
    }
}

impl FromStr for Forward {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (topic, to) = text.rsplit_once('=').ok_or("must be TOPIC=file or TOPIC=stream")?;
        topic.parse::<Pattern>()?;
        let (to, name) = to.split_once(':').map_or((to, None), |(to, name)| (to, Some(name)));
        let (to, default) = match to {
            "file" => (Destination::File, DELIVERED),
            "stream" => (Destination::Stream, STREAM),
            other => {
                return Err(format!("unknown destination `{other}`: write file or stream, or use --config"));
            }
        };
        match name {
            Some("") => Err("the name after the colon is missing".to_owned()),
            name => Ok(Self { topic: topic.to_owned(), to, name: name.unwrap_or(default).to_owned() }),
        }
    }
}

// === impl Destination ===

impl Destination {
    fn sink_name(self) -> &'static str {
        match self {
            Self::File => "up-file",
            Self::Stream => "up-stream",
        }
    }

    fn sink(self, folder: &Path) -> String {
        let name = self.sink_name();
        match self {
            Self::File => {
                format!("\n[sinks.{name}.file]\ndir = {}\n", quoted(&folder.display().to_string()))
            }
            Self::Stream => format!("\n[sinks.{name}.redis]\n"),
        }
    }
}

pub(super) fn quoted(text: &str) -> String {
    serde_json::to_string(text).expect("a string has a JSON form, which TOML reads")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forward_names_topics_and_a_destination() {
        for (text, topic, to, name) in [
            ("notices.*=file", "notices.*", Destination::File, DELIVERED),
            ("**=stream:out", "**", Destination::Stream, "out"),
        ] {
            let expected = Forward { topic: topic.to_owned(), to, name: name.to_owned() };
            assert_eq!(text.parse(), Ok(expected));
        }
        for (text, expected) in [
            ("orders", "TOPIC=file"),
            ("=file", "empty pattern"),
            ("a b=file", "no topic matches"),
            ("orders=kafka", "unknown destination `kafka`"),
            ("orders=file:", "the name after the colon is missing"),
        ] {
            let fault = text.parse::<Forward>().unwrap_err();
            assert!(fault.contains(expected), "{text}: {fault}");
        }
    }
}
