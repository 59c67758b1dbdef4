//! A number of bytes as people write it: `"64KiB"`.

use super::text::Written;
use std::fmt;
use std::str::FromStr;

/// A number of bytes with a unit in its text: `B`, `KiB`, `MiB`, `GiB` or `TiB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ByteSize(u64);

const UNITS: [(&str, u32); 5] = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10), ("B", 0)];

// === impl ByteSize ===

impl ByteSize {
    /// A size in bytes.
    #[must_use]
    pub const fn from_bytes(bytes: u64) -> Self {
        Self(bytes)
    }

    /// A size in units of 1024 bytes.
    #[must_use]
    pub const fn from_kib(kib: u64) -> Self {
        Self(kib << 10)
    }

    /// A size in units of 1024² bytes.
    #[must_use]
    pub const fn from_mib(mib: u64) -> Self {
        Self(mib << 20)
    }

    /// A size in units of 1024³ bytes.
    #[must_use]
    pub const fn from_gib(gib: u64) -> Self {
        Self(gib << 30)
    }

    /// The plain number of bytes.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        self.0
    }

    /// The number of bytes as a length in memory; `usize::MAX` if too large for this host.
    #[must_use]
    pub fn as_usize(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = |shift: u32| self.0 != 0 && self.0.trailing_zeros() >= shift;
        let (unit, shift) = UNITS.into_iter().find(|(_, shift)| whole(*shift)).unwrap_or(("B", 0));
        write!(out, "{}{unit}", self.0 >> shift)
    }
}

impl FromStr for ByteSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let refusal = || format!("`{text}` is not a size; write {}", Self::EXPECTED);
        let digits = text.find(|c: char| !c.is_ascii_digit()).ok_or_else(refusal)?;
        let (number, unit) = (&text[..digits], text[digits..].trim_start());
        let number: u64 = number.parse().map_err(|_| refusal())?;
        let (_, shift) = UNITS.into_iter().find(|(name, _)| *name == unit).ok_or_else(refusal)?;
        number.checked_mul(1 << shift).map(Self).ok_or_else(|| format!("`{text}` does not fit in 64 bits"))
    }
}

crate::written!(ByteSize, "a size with its unit in quotes, such as \"64KiB\" (B, KiB, MiB, GiB, TiB)");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_prints_in_the_largest_unit_that_divides_it() {
        for (bytes, text) in [
            (0, "0B"),
            (1, "1B"),
            (1023, "1023B"),
            (1024, "1KiB"),
            (65_536, "64KiB"),
            (1 << 30, "1GiB"),
            (1_536, "1536B"),
        ] {
            assert_eq!(ByteSize(bytes).to_string(), text);
            assert_eq!(text.parse(), Ok(ByteSize(bytes)));
        }
        assert_eq!("64 KiB".parse(), Ok(ByteSize::from_kib(64)));
    }

    #[test]
    fn a_size_without_a_known_unit_is_refused() {
        for text in ["", "64", "KiB", "64kb", "-1B", "1.5KiB", "99999999999TiB", "1 KiB B"] {
            assert!(text.parse::<ByteSize>().is_err(), "{text}");
        }
    }
}
