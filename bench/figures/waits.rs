//! The file of waits: the source of the histogram that `docs-figures` draws.

use crate::error::BenchError;
use std::collections::BTreeMap;
use std::fmt::Arguments;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;

const HEADER: &str = "of,shards,rate,wait,us,messages\n";

#[derive(Debug)]
pub(crate) struct Waits(File);

// === impl Waits ===

impl Waits {
    pub(crate) fn create(path: &Path) -> io::Result<Self> {
        let mut file = File::create(path)?;
        file.write_all(HEADER.as_bytes())?;
        Ok(Self(file))
    }

    pub(crate) fn write(&self, what: Arguments<'_>, waits_us: &[u64]) -> Result<(), BenchError> {
        let mut counts = BTreeMap::<u64, u64>::new();
        for &us in waits_us {
            *counts.entry(rounded(us)).or_default() += 1;
        }
        let rows: String = counts.iter().map(|(us, count)| format!("{what},{us},{count}\n")).collect();
        let written = (&self.0).write_all(rows.as_bytes());
        written.map_err(|error| BenchError::Wrong(format!("the waits cannot be written: {error}")))
    }
}

fn rounded(us: u64) -> u64 {
    let mut step = 1;
    while us / step >= 100 {
        step *= 10;
    }
    us / step * step
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_rounded_to_two_digits() {
        assert_eq!([0, 7, 99, 100, 129, 12_345].map(rounded), [0, 7, 99, 100, 120, 12_000]);
    }
}
