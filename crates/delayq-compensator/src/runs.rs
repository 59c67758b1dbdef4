//! How a batch is cut into runs: records that may go to Redis together, because none of them waits for another.

use delayq::spool::SpoolRecord;
use std::collections::HashSet;

/// A record and its number in the spool.
pub(crate) type Numbered = (u64, SpoolRecord);

/// Cuts a batch where the verb changes, where an id comes a second time, and, but for puts, where the topic changes.
/// So the records of one id are resubmitted in order.
pub(crate) fn runs(batch: Vec<Numbered>) -> Vec<Vec<Numbered>> {
    let mut runs: Vec<Vec<Numbered>> = Vec::new();
    let mut ids = HashSet::new();
    for (seq, record) in batch {
        let id = (record.topic.clone(), record.target.id.clone());
        let fits = runs.last().and_then(|run| run.last()).is_some_and(|(_, last)| {
            let one_topic = record.verb() == "put" || last.topic == record.topic;
            last.verb() == record.verb() && one_topic && !ids.contains(&id)
        });
        if !fits {
            ids.clear();
            runs.push(Vec::new());
        }
        ids.insert(id);
        runs.last_mut().expect("one was pushed where none was").push((seq, record));
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;
    use delayq::{Fate, Message, MessageId, Target, Topic, UnixMillis};

    fn record(word: &str) -> SpoolRecord {
        let (verb, id) = word.split_at(1);
        let (topic, at) = (Topic::new("t").unwrap(), UnixMillis::new(1));
        let target = Target::from(MessageId::own(id).unwrap());
        match verb {
            "c" => SpoolRecord::cancel(&topic, &target, at),
            _ => SpoolRecord::put(&Message::new(topic, "x").with_id(target.id), Fate::NotApplied, at),
        }
    }

    #[test]
    fn a_run_has_one_verb_and_each_id_once() {
        for (batch, expected) in [
            ("", ""),
            ("p1 p2 p3", "0 1 2"),
            ("p1 p2 c1 c2 p1", "0 1|2 3|4"),
            ("p1 p1 p2", "0|1 2"),
            ("c1 c1", "0|1"),
        ] {
            let batch = (0..).zip(batch.split_whitespace().map(record)).collect();
            let cut: Vec<String> = runs(batch)
                .iter()
                .map(|run| run.iter().map(|(seq, _)| seq.to_string()).collect::<Vec<_>>().join(" "))
                .collect();
            assert_eq!(cut.join("|"), expected);
        }
    }
}
