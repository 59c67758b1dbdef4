//! Values that are written as one string: how they are read, and refused without repeating what was written.

use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

use serde::Deserializer;
use serde::de::{Error, Visitor};

/// A value with a grammar of its own.
///
/// # Contract
/// The error of [`FromStr`] is a sentence for the operator and holds no secret.
pub(crate) trait Written: FromStr<Err = String> {
    /// What belongs here, for "expected …".
    const EXPECTED: &'static str;
}

/// Reads a string through its grammar; anything that is no string is refused by name of its type alone.
pub(crate) fn visit_written<'de, T: Written, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    deserializer.deserialize_any(StringOnly(PhantomData))
}

struct StringOnly<T>(PhantomData<T>);

impl<T: Written> Visitor<'_> for StringOnly<T> {
    type Value = T;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(T::EXPECTED)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<T, E> {
        Err(bare("number", T::EXPECTED))
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<T, E> {
        Err(bare("number", T::EXPECTED))
    }

    fn visit_i128<E: Error>(self, _: i128) -> Result<T, E> {
        Err(bare("number", T::EXPECTED))
    }

    fn visit_u128<E: Error>(self, _: u128) -> Result<T, E> {
        Err(bare("number", T::EXPECTED))
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<T, E> {
        Err(bare("number", T::EXPECTED))
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<T, E> {
        Err(bare("boolean", T::EXPECTED))
    }
}

/// The refusal of a value that is no string. serde's own would repeat the value, which may be a secret.
pub(crate) fn bare<E: Error>(found: &str, expected: &str) -> E {
    E::custom(format_args!("a bare {found}, expected {expected}"))
}
