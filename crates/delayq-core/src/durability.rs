//! Durability: the confirmation that writes of a topic wait for.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

/// The confirmation that a topic's puts, cancels and reschedules wait for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Durability {
    /// None: a write is as safe as its Redis is configured.
    #[default]
    Memory,
    /// The master's disk: the append-only file is synced.
    Disk,
    /// This many replicas, 1 to 9, have received the write.
    Replicas(u8),
}

/// All confirmations that a call waits for; empty: none. A call on several topics waits for the requirements of each.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Waits(BTreeSet<Durability>);

// === impl Waits ===

impl Waits {
    /// No confirmation.
    pub const NOTHING: Self = Self(BTreeSet::new());

    /// Adds a confirmation.
    pub fn add(&mut self, durability: Durability) {
        if durability != Durability::Memory {
            self.0.insert(durability);
        }
    }

    /// True if the call waits for no confirmation.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// True if the call waits for the disk.
    pub fn disk(&self) -> bool {
        self.0.contains(&Durability::Disk)
    }

    /// Number of replicas to wait for.
    pub fn replicas(&self) -> u8 {
        match self.0.last() {
            Some(&Durability::Replicas(count)) => count,
            _ => 0,
        }
    }
}

impl From<Durability> for Waits {
    fn from(durability: Durability) -> Self {
        let mut waits = Self::NOTHING;
        waits.add(durability);
        waits
    }
}

/// Words separated by spaces, the form of script arguments.
impl fmt::Display for Waits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&words.join(" "))
    }
}

// === impl Durability ===

impl FromStr for Durability {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match (text, text.strip_prefix("replica:").map(str::as_bytes)) {
            ("memory", _) => Ok(Self::Memory),
            ("disk", _) => Ok(Self::Disk),
            (_, Some([digit @ b'1'..=b'9'])) => Ok(Self::Replicas(digit - b'0')),
            _ => Err("must be memory, disk or replica:N, with N from 1 to 9".to_owned()),
        }
    }
}

impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory => f.write_str("memory"),
            Self::Disk => f.write_str("disk"),
            Self::Replicas(count) => write!(f, "replica:{count}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_durability_is_read_back_as_it_is_written() {
        for durability in
            [Durability::Memory, Durability::Disk, Durability::Replicas(1), Durability::Replicas(9)]
        {
            assert_eq!(durability.to_string().parse(), Ok(durability));
        }
        for bad in ["", "replica", "replica:0", "replica:10", "replica:+1", "Disk"] {
            assert!(bad.parse::<Durability>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_call_of_several_topics_waits_for_the_most_that_each_asks() {
        let mut waits = Waits::NOTHING;
        waits.add(Durability::Memory);
        assert!(waits.is_empty() && waits.to_string().is_empty());
        for asked in [Durability::Replicas(2), Durability::Disk, Durability::Replicas(1)] {
            waits.add(asked);
        }
        assert_eq!((waits.disk(), waits.replicas()), (true, 2));
        assert_eq!(waits.to_string(), "disk replica:1 replica:2");
    }
}
