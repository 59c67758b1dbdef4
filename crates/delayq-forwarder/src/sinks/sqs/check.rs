//! Checks of a queue: settings that lose messages or hold them up.

use std::collections::HashMap;

/// Seconds of a day: shorter retention is warned of.
const DAY_SECS: u64 = 86_400;

pub(super) fn unseen(queue: &str, why: &str) -> String {
    format!(
        "the attributes of the queue `{queue}` cannot be seen ({why}): see to it that it has no short retention, or allow \
         sqs:GetQueueAttributes"
    )
}

pub(super) fn judge(queue: &str, attributes: &HashMap<String, String>) -> Vec<String> {
    let number = |name: &str| attributes.get(name).and_then(|text| text.parse::<u64>().ok());
    let mut warnings = Vec::new();
    if let Some(secs) = number("MessageRetentionPeriod").filter(|secs| *secs < DAY_SECS) {
        warnings.push(format!(
            "the queue `{queue}` has MessageRetentionPeriod={secs}: messages that wait longer are dropped unread"
        ));
    }
    if let Some(secs) = number("DelaySeconds").filter(|secs| *secs > 0) {
        warnings.push(format!(
            "the queue `{queue}` has DelaySeconds={secs}: every message comes that much later"
        ));
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_that_drops_or_delays_is_named_by_its_attribute() {
        for (name, value, expected) in [
            ("MessageRetentionPeriod", "60", 1),
            ("MessageRetentionPeriod", "345600", 0),
            ("DelaySeconds", "0", 0),
            ("DelaySeconds", "5", 1),
        ] {
            let warnings = judge("q", &HashMap::from([(name.to_owned(), value.to_owned())]));
            assert_eq!(warnings.len(), expected, "{warnings:?}");
            assert!(
                warnings.iter().all(|warning| warning.contains(&format!("{name}={value}"))),
                "{warnings:?}"
            );
        }
    }
}
