//! `[forwarder]`: how messages are reserved.

use crate::circuit::CircuitSettings;
use delayq_service::config::{ByteSize, Faults, HumanDuration, Section};
use delayq_service::validate_name;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// `[forwarder]`: how messages are reserved.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ForwarderConfig {
    /// Name in traces: 1 to 64 of `A-Z a-z 0-9 . _ -`. Default `""`: the host's name and the process id.
    pub name: String,
    /// Lease of a message, extended while its destination works. 1 s to 1 h; default 30 s. A killed forwarder's messages are
    /// delivered again after this time.
    pub lease: HumanDuration,
    /// Interval between polls of every shard, in case a notification was lost. 100 ms to 1 m; default 2 s.
    pub poll_interval: HumanDuration,
    /// Failures in a row, of unclear blame, that open the circuit of a destination; not a key of the file.
    #[serde(skip)]
    pub circuit_failures: u32,
    /// Rest of a destination before the first probe; not a key of the file. Each failed probe doubles the rest.
    #[serde(skip)]
    pub circuit_first_rest: Duration,
    /// Consecutive rejections without a delivery after which a destination rests instead of burying more messages: the
    /// destination may be misconfigured. 0 to 1,000,000; 0: no limit; default 100.
    pub max_burials: u32,
    /// The longest rest of a failing destination. 500 ms to 10 m; default 15 s. A repaired destination waits at most this long.
    pub circuit_longest_rest: HumanDuration,
    /// Maximum payload bytes in flight to all destinations together. 4 MiB to 64 GiB; default 256 MiB. Each requested
    /// shard may exceed the limit by one message.
    pub in_flight_bytes: ByteSize,
}

// === impl ForwarderConfig ===

impl ForwarderConfig {
    pub(crate) fn circuit(&self) -> CircuitSettings {
        CircuitSettings {
            failures: self.circuit_failures,
            first_rest: self.circuit_first_rest,
            longest_rest: *self.circuit_longest_rest,
            max_burials: self.max_burials,
        }
    }
}

impl Default for ForwarderConfig {
    fn default() -> Self {
        Self {
            name: String::new(),
            lease: HumanDuration::from_secs(30),
            poll_interval: HumanDuration::from_secs(2),
            circuit_failures: 5,
            circuit_first_rest: Duration::from_millis(500),
            circuit_longest_rest: HumanDuration::from_secs(15),
            max_burials: 100,
            in_flight_bytes: ByteSize::from_mib(256),
        }
    }
}

impl Section for ForwarderConfig {
    fn validate(&self, at: &mut Faults) {
        let (ms, secs) = (HumanDuration::from_millis, HumanDuration::from_secs);
        validate_name(at, "name", &self.name);
        at.range("lease", &self.lease, secs(1)..=secs(3600));
        at.range("poll_interval", &self.poll_interval, ms(100)..=secs(60));
        at.range("max_burials", &self.max_burials, 0..=1_000_000);
        at.range("in_flight_bytes", &self.in_flight_bytes, ByteSize::from_mib(4)..=ByteSize::from_gib(64));
        at.range("circuit_longest_rest", &self.circuit_longest_rest, ms(500)..=secs(600));
    }
}
