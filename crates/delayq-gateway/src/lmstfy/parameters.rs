//! The parameters of a request, read as Go reads them: the first of a name counts, `+` is a space, and unknown names are ignored.

use super::reply::{self, Refusal};
use percent_encoding::percent_decode_str;

/// In the order of the request.
#[derive(Clone, Debug, Default)]
pub(super) struct Parameters(Vec<(String, String)>);

// === impl Parameters ===

impl Parameters {
    pub(super) fn of(text: &str) -> Self {
        let decoded =
            |text: &str| percent_decode_str(&text.replace('+', " ")).decode_utf8_lossy().into_owned();
        let pair = |pair: &str| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decoded(name), decoded(value))
        };
        Self(text.split('&').filter(|text| !text.is_empty()).map(pair).collect())
    }

    pub(super) fn and(mut self, other: Self) -> Self {
        self.0.extend(other.0);
        self
    }

    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Without a sign; `default` only if the parameter is absent.
    pub(super) fn number(&self, name: &str, default: u32) -> Result<u32, Refusal> {
        let Some(text) = self.text(name) else { return Ok(default) };
        // Rust's parser takes a plus sign.
        let digits = text.bytes().all(|byte| byte.is_ascii_digit());
        let number = text.parse().ok().filter(|_| digits);
        number.ok_or_else(|| reply::error(400, &format!("invalid {name}")))
    }

    /// With or without a sign, at least `least`.
    pub(super) fn signed(&self, name: &str, default: i64, least: i64) -> Result<u64, Refusal> {
        let number = self.text(name).map_or(Ok(default), str::parse).ok().filter(|&number| number >= least);
        let number = number.and_then(|number| u64::try_from(number).ok());
        number.ok_or_else(|| reply::error(400, &format!("invalid {name}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_a_name_counts_and_only_an_absent_one_has_a_default() {
        let query = Parameters::of("delay=5&delay=6&ttl=&tries=+1&count=%33");
        assert_eq!(query.number("delay", 0).unwrap(), 5);
        assert_eq!(query.number("timeout", 7).unwrap(), 7);
        assert_eq!(query.signed("count", 1, 1).unwrap(), 3);
        for name in ["ttl", "tries"] {
            assert!(query.number(name, 1).is_err(), "{name}");
        }
        for text in ["a=+1", "a=-1", "a=4294967296", "a=1.0", "a=%2B1"] {
            assert!(Parameters::of(text).number("a", 0).is_err(), "{text}");
        }
        assert!(Parameters::of("limit=0").signed("limit", 1, 1).is_err());
    }
}
