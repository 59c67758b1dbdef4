//! The lines of a backup other than messages: origin, topic policies, progress and end.
//!
//! ```json
//! {"backup":{"format":1,"namespace":"dq","shards":"4","dead":false,"topics":[],"begun_ms":1800000000000}}
//! {"dictionary":{"id":7,"bytes_base64":"N6Qw7A=="}}
//! {"policy":{"topic":"orders","settings":{"lease":"1m"},"paused":true,"rate":100.0}}
//! {"left_out":{"nodes":["b"],"shards":"2-3"}}
//! {"checkpoint":{"cursor":"0-1:5d41:1536:2-3","pending":1000,"dead":0,"missing":0}}
//! {"end":{"pending":5000,"dead":3,"missing":0}}
//! ```
//! All other lines are messages in the format of [`delayq_service::put_line`].

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The newest format that this version reads, and the format that this version writes.
pub const FORMAT: u32 = 1;

/// Beginnings of the lines that are not messages.
const BEGINNINGS: [&str; 6] =
    ["{\"backup\":", "{\"dictionary\":", "{\"policy\":", "{\"left_out\":", "{\"checkpoint\":", "{\"end\":"];

/// A line that is not a message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Record {
    /// The first line.
    Backup(Begin),
    /// A compression dictionary of a topic. The payloads of a backup are not compressed.
    Dictionary(Dictionary),
    /// The policy of a topic.
    Policy(TopicPolicy),
    /// The shards that the operator left out; the last record of this kind counts.
    LeftOut(LeftOut),
    /// All lines before a checkpoint are complete.
    Checkpoint(Checkpoint),
    /// The last line.
    End(Tally),
}

/// Origin and scope of a backup.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Begin {
    /// Format of the lines.
    pub format: u32,
    /// The namespace of the deployment.
    pub namespace: String,
    /// Shard counts of the deployment, comma-separated, the newest last.
    pub shards: String,
    /// Set if the backup includes dead letters.
    pub dead: bool,
    /// Topics in the backup; empty for all.
    pub topics: Vec<String>,
    /// Start of the backup on Redis's clock, in ms.
    pub begun_ms: u64,
}

/// A dictionary.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dictionary {
    /// Id of the dictionary.
    pub id: u32,
    /// Bytes of the dictionary.
    pub bytes_base64: String,
}

/// The policy of a topic.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TopicPolicy {
    /// Name of the topic.
    pub topic: String,
    /// Settings that differ from the default.
    pub settings: BTreeMap<String, String>,
    /// Set if the topic is paused.
    pub paused: bool,
    /// Paused groups of the topic.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paused_groups: Vec<String>,
    /// Maximum messages reserved per second.
    #[serde(default)]
    pub rate: Option<f64>,
}

/// Nodes that a backup of several Redises leaves out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    /// Names of the nodes.
    pub nodes: Vec<String>,
    /// Shards of the nodes, as far as known.
    pub shards: String,
}

/// Progress of a backup.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checkpoint {
    /// Position at which the walk over the messages continues.
    pub cursor: String,
    /// Number of messages written so far.
    #[serde(flatten)]
    pub tally: Tally,
}

/// Number of messages written, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// Pending and leased messages.
    pub pending: u64,
    /// Dead letters.
    pub dead: u64,
    /// Unreadable messages, missing from the backup.
    pub missing: u64,
}

// === impl Record ===

impl Record {
    /// Parses a line; returns `None` for a message.
    ///
    /// # Errors
    /// Describes the fault of the line.
    pub fn of_line(line: &[u8]) -> Result<Option<Self>, String> {
        if !is_record(line) {
            return Ok(None);
        }
        match serde_json::from_slice(line) {
            Ok(Self::Backup(begin)) if begin.format > FORMAT => Err(format!(
                "the backup has format {}, and this version knows {FORMAT}: use a later delayq",
                begin.format
            )),
            Ok(record) => Ok(Some(record)),
            Err(error) => Err(format!("not a line of a backup: {error}")),
        }
    }

    /// Serialises the record as a line, without the line end.
    pub fn line(&self) -> String {
        serde_json::to_string(self).expect("a record holds plain values")
    }
}

// === impl LeftOut ===

impl LeftOut {
    /// Names the missing shards in a sentence.
    pub fn sentence(&self) -> String {
        let word = if self.nodes.len() == 1 { "node" } else { "nodes" };
        let Self { nodes, shards } = self;
        format!("left out of the backup on request: shards {shards} of {word} {}", nodes.join(", "))
    }
}

/// Returns whether a line of a backup is not a message.
pub fn is_record(line: &[u8]) -> bool {
    BEGINNINGS.iter().any(|beginning| line.starts_with(beginning.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_record_is_read_back_and_messages_are_none() {
        let tally = Tally { pending: 5, dead: 1, missing: 2 };
        let begin = |format| {
            Record::Backup(Begin {
                format,
                namespace: "dq".to_owned(),
                shards: "4,8".to_owned(),
                dead: true,
                topics: vec!["orders".to_owned()],
                begun_ms: 1_800_000_000_000,
            })
        };
        for record in [
            begin(FORMAT),
            Record::Dictionary(Dictionary { id: 7, bytes_base64: "AAH/".to_owned() }),
            Record::Policy(TopicPolicy {
                topic: "orders".to_owned(),
                settings: BTreeMap::from([("lease".to_owned(), "1m".to_owned())]),
                paused: true,
                paused_groups: vec!["customer-7".to_owned()],
                rate: Some(2.5),
            }),
            Record::LeftOut(LeftOut { nodes: vec!["b".to_owned()], shards: "2-3".to_owned() }),
            Record::Checkpoint(Checkpoint { cursor: "ab:1".to_owned(), tally }),
            Record::End(tally),
        ] {
            assert_eq!(Record::of_line(record.line().as_bytes()), Ok(Some(record)));
        }
        assert_eq!(Record::of_line(br#"{"topic":"t","payload":"{\"end\":1}"}"#), Ok(None));
        assert!(Record::of_line(begin(FORMAT + 1).line().as_bytes()).unwrap_err().contains("later delayq"));
        assert!(
            Record::of_line(br#"{"end":{"pending":"many"}}"#).unwrap_err().contains("not a line of a backup")
        );
    }
}
