//! The broker's limit on message size: above the limit the broker closes the channel instead of answering.

use super::letter::RabbitmqLetter;
use crate::brokers::Outcome;

/// Rejects messages above the limit if the broker named one; other messages keep their outcome and are retried.
pub(super) fn reject_larger(letters: &[RabbitmqLetter<'_>], failed: &mut [(usize, Outcome)]) {
    let named = failed.iter().find_map(|(_, outcome)| match outcome {
        Outcome::Unavailable { reason, .. } => max_bytes(reason),
        _ => None,
    });
    let Some(most) = named else { return };
    for (index, outcome) in failed {
        let bytes = letters[*index].body.len();
        if bytes > most {
            *outcome = Outcome::rejected(format!(
                "{bytes} bytes are larger than the broker's max_message_size {most}"
            ));
        }
    }
}

/// Reads `PRECONDITION_FAILED - message size 5000 is larger than configured max size 2000`, with or without the `is`.
fn max_bytes(words: &str) -> Option<usize> {
    let (_, rest) = words.split_once("larger than configured max size ")?;
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    rest[..digits].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bound_is_read_from_the_brokers_words() {
        for (words, expected) in [
            ("PRECONDITION_FAILED - message size 5000 is larger than configured max size 2000", Some(2000)),
            ("406: message size 5000 larger than configured max size 2000, in method", Some(2000)),
            ("PRECONDITION_FAILED - unknown delivery tag 7", None),
            ("larger than configured max size huge", None),
        ] {
            assert_eq!(max_bytes(words), expected, "{words}");
        }
    }
}
