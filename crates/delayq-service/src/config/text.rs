//! Values written as one string: reading them, and refusing them without repeating the text.

use serde::Deserializer;
use serde::de::{Error, Visitor};
use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

/// A value with a grammar of its own.
///
/// # Contract
/// The error of [`FromStr`] is a sentence for the operator and holds no secret.
pub trait Written: FromStr<Err = String> {
    /// The valid forms, as the object of "expected …".
    const EXPECTED: &'static str;
}

/// Makes a type [`Written`] and gives it serde support: deserialising reads a string through the grammar, serialising
/// uses `Display`.
#[macro_export]
macro_rules! written {
    ($kind:ty, $expected:literal) => {
        impl $crate::config::Written for $kind {
            const EXPECTED: &'static str = $expected;
        }

        impl ::serde::Serialize for $kind {
            fn serialize<S: ::serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> ::serde::Deserialize<'de> for $kind {
            fn deserialize<D: ::serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                $crate::config::visit_written(deserializer)
            }
        }
    };
}

/// Visitor methods that refuse numbers and booleans; serde's own would repeat the value.
macro_rules! refuse_bare_values {
    ($expected:expr) => {
        refuse_bare_values!(@ $expected, visit_i64 i64 "number", visit_u64 u64 "number", visit_i128 i128 "number",
            visit_u128 u128 "number", visit_f64 f64 "number", visit_bool bool "boolean");
    };
    (@ $expected:expr, $($visit:ident $kind:ident $name:literal),*) => {
        $(fn $visit<E: Error>(self, _: $kind) -> Result<Self::Value, E> {
            Err(E::custom(format_args!("a bare {}, expected {}", $name, $expected)))
        })*
    };
}
pub(crate) use refuse_bare_values;

/// Reads a string through its grammar; any other type is refused by name, without the value.
///
/// # Errors
/// The refusal of the grammar, or of the type.
pub fn visit_written<'de, T: Written, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
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

    refuse_bare_values!(T::EXPECTED);
}
