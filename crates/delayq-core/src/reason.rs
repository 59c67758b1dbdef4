//! Why a message failed, in its holder's words: kept with a dead letter, and in the history.

use std::error::Error;

/// Maximum bytes of a reason that a dead letter keeps; its history keeps the first 200.
pub const MAX_REASON_BYTES: usize = 1000;

/// An error as a reason: the texts of the error and its sources.
pub fn of_error(error: &dyn Error) -> String {
    let (mut said, mut next) = (error.to_string(), error.source());
    while let Some(source) = next {
        let text = source.to_string();
        // Many errors repeat their source's text.
        if !said.contains(&text) {
            said = format!("{said}: {text}");
        }
        next = source.source();
    }
    said
}

/// The kept part of a reason, in whole characters.
pub fn kept(reason: &str) -> &str {
    &reason[..reason.floor_char_boundary(MAX_REASON_BYTES)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    #[test]
    fn a_reason_is_cut_between_two_characters() {
        let long = format!("{}é", "x".repeat(MAX_REASON_BYTES - 1));
        assert_eq!(kept(&long), "x".repeat(MAX_REASON_BYTES - 1));
        assert_eq!(kept(&long[1..]), &long[1..]);
    }

    #[test]
    fn an_error_tells_its_sources_and_nothing_twice() {
        #[derive(Debug, thiserror::Error)]
        #[error("no price{}", if *.says { ": the shop is closed" } else { "" })]
        struct NoPrice {
            says: bool,
            source: io::Error,
        }
        for says in [false, true] {
            let error = NoPrice { says, source: io::Error::other("the shop is closed") };
            assert_eq!(of_error(&error), "no price: the shop is closed");
        }
    }
}
