//! Maximum lateness of a message after each fault: the table of docs/operations/durability.md, which the
//! tests of the faults assert.
//!
//! Origin of the bounds: a timer that owns its shards throughout continues to pump, so only the machine makes its
//! messages late, and a second is allowed. A fault noticed by a lease, a lock or a poll may take that long, plus the
//! two seconds in which etcd polls for expired leases and a plan is made. Planned moves have a bound of 50 ms.
//!
//! [`delayq_tests::timing`] judges a later message: the test fails, or the machine's own pauses
//! ([`crate::pulse`]) may explain the delay, and the run is repeated.

use std::time::Duration;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Bound {
    pub(crate) fault: &'static str,
    leases: u32,
    polls: u32,
    calls: u32,
    steady: u32,
    locks: u32,
    more: Duration,
    /// The event from which lateness counts, if not the due time.
    since: Option<&'static str>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    /// `[etcd] lease_ttl`
    pub(crate) lease: Duration,
    /// `[timer] poll_interval`
    pub(crate) poll: Duration,
    /// `[redis] call_deadline`
    pub(crate) call: Duration,
    /// `[timer] clock_steady`
    pub(crate) steady: Duration,
    /// `[timer] lock`
    pub(crate) lock: Duration,
}

pub(crate) const ETCD_LEADER_LOST: Bound =
    Bound::of("etcd's leader is killed, or cut off from its peers").s(1);
pub(crate) const ETCD_RESTARTED: Bound = Bound::of("etcd is restarted, one member after another").s(1);
pub(crate) const ETCD_GONE: Bound = Bound::of("etcd has no quorum, or does not answer").s(1);
pub(crate) const ETCD_REBUILT: Bound = Bound::of("etcd is emptied and rebuilt").s(1);
pub(crate) const ETCD_COMPACTED: Bound = Bound::of("etcd's history is compacted under a watch").s(1);
pub(crate) const TOKEN_LOST: Bound = Bound::of("etcd forgets its tokens (a restart)").s(1);
pub(crate) const LEASE_REVOKED: Bound =
    Bound::of("timers' leases are revoked, or their keys in etcd deleted, by hand").s(1);
pub(crate) const CUT_FROM_ETCD: Bound = Bound::of("a timer is cut off from etcd alone").s(1);
pub(crate) const CUT_FROM_REDIS: Bound = Bound::of("a timer is cut off from Redis alone").calls(2).s(6);
pub(crate) const CUT_FROM_NODE: Bound =
    Bound::of("a timer is cut off from one of several Redises, or one master of a cluster").calls(2).s(6);
pub(crate) const CUT_FROM_BOTH: Bound = Bound::of("a timer is cut off from both").leases(1).s(2);
pub(crate) const KILLED: Bound = Bound::of("a timer is killed (SIGKILL)").leases(1).s(2);
pub(crate) const KILLED_TOGETHER: Bound =
    Bound::of("a second timer is killed before the first one's shards are placed").leases(2).s(2);
pub(crate) const KILLED_WITH_ETCD_LEADER: Bound =
    Bound::of("a timer is killed while etcd changes its leader").leases(2).s(3);
pub(crate) const KILLED_ALONE: Bound = Bound::of("a single timer, without etcd, is killed").locks(1).s(2);
pub(crate) const FROZEN: Bound = Bound::of("a timer is frozen (SIGSTOP) and resumed later").leases(1).s(2);
pub(crate) const STOPPED: Bound = Bound::of("a timer is stopped (SIGTERM)").ms(50);
pub(crate) const DRAINED: Bound = Bound::of("a timer is drained, or undrained").ms(50);
pub(crate) const JOINED: Bound = Bound::of("a timer is started").ms(50);
pub(crate) const CROWD: Bound = Bound::of("two hundred timers are started at once").polls(1).s(11);
pub(crate) const NOBODY: Bound = Bound::of("a shard loses its owner while etcd is gone").polls(1).s(11);
pub(crate) const KILLED_WITH_FULL_ETCD: Bound =
    Bound::of("timers are killed while etcd takes no writes (its database is full)").polls(1).s(11);
pub(crate) const CLOCK: Bound = Bound::of("Redis's clock jumps").steady(1).polls(1).s(2);
pub(crate) const BLACK_HOLE: Bound = Bound::of("a connection to Redis is black-holed").calls(1).s(2);
pub(crate) const WAKE_LOST: Bound = Bound::of("a wake-up is lost (its connection broke)").polls(1).s(1);
pub(crate) const SLOT_MOVED: Bound =
    Bound::of("a slot of a Redis Cluster is moved").s(2).since("it has moved");

/// Rows that the tests of delayq and of the command line assert: failovers by Sentinel and of a cluster.
const ELSEWHERE: [&str; 2] = [
    "| Redis fails over by Sentinel | 3 s after the new master is known |",
    "| a master of a Redis Cluster fails over | 3 s after the new master is known |",
];

const ALL: [Bound; 26] = [
    ETCD_LEADER_LOST,
    ETCD_RESTARTED,
    ETCD_GONE,
    ETCD_REBUILT,
    ETCD_COMPACTED,
    TOKEN_LOST,
    LEASE_REVOKED,
    CUT_FROM_ETCD,
    CUT_FROM_REDIS,
    CUT_FROM_NODE,
    CUT_FROM_BOTH,
    KILLED,
    KILLED_TOGETHER,
    KILLED_WITH_ETCD_LEADER,
    KILLED_ALONE,
    FROZEN,
    STOPPED,
    DRAINED,
    JOINED,
    CROWD,
    NOBODY,
    KILLED_WITH_FULL_ETCD,
    CLOCK,
    BLACK_HOLE,
    WAKE_LOST,
    SLOT_MOVED,
];

// === impl Bound ===

impl Bound {
    const fn of(fault: &'static str) -> Self {
        Self { fault, leases: 0, polls: 0, calls: 0, steady: 0, locks: 0, more: Duration::ZERO, since: None }
    }

    const fn leases(self, leases: u32) -> Self {
        Self { leases, ..self }
    }

    const fn polls(self, polls: u32) -> Self {
        Self { polls, ..self }
    }

    const fn calls(self, calls: u32) -> Self {
        Self { calls, ..self }
    }

    const fn steady(self, steady: u32) -> Self {
        Self { steady, ..self }
    }

    const fn locks(self, locks: u32) -> Self {
        Self { locks, ..self }
    }

    const fn s(self, seconds: u64) -> Self {
        Self { more: Duration::from_secs(seconds), ..self }
    }

    const fn ms(self, ms: u64) -> Self {
        Self { more: Duration::from_millis(ms), ..self }
    }

    const fn since(self, event: &'static str) -> Self {
        Self { since: Some(event), ..self }
    }

    pub(crate) fn late(&self, times: Times) -> Duration {
        let Times { lease, poll, call, steady, lock } = times;
        let leased = lease * self.leases + lock * self.locks;
        leased + poll * self.polls + call * self.calls + steady * self.steady + self.more
    }

    /// The bound in the table's form: `` `lease_ttl` + 2 s ``.
    fn text(&self) -> String {
        let terms = [
            (self.leases, "lease_ttl"),
            (self.polls, "poll_interval"),
            (self.calls, "call_deadline"),
            (self.steady, "clock_steady"),
            (self.locks, "lock"),
        ];
        let term = |&(count, name): &(u32, &str)| match count {
            0 => None,
            1 => Some(format!("`{name}`")),
            count => Some(format!("{count} × `{name}`")),
        };
        let more = match self.more.subsec_millis() {
            0 => format!("{} s", self.more.as_secs()),
            ms => format!("{ms} ms"),
        };
        let sum = terms.iter().filter_map(term).chain([more]).collect::<Vec<_>>().join(" + ");
        self.since.map_or(sum.clone(), |event| format!("{sum} after {event}"))
    }
}

#[test]
fn the_table_of_operations_states_the_bounds_that_the_tests_assert() {
    let page = include_str!("../../../../docs/operations/durability.md");
    let asserted_here = ALL.map(|bound| format!("| {} | {} |", bound.fault, bound.text()));
    for row in asserted_here.iter().map(String::as_str).chain(ELSEWHERE) {
        assert!(
            page.lines().any(|line| line.starts_with(row)),
            "docs/operations/durability.md has no row {row}"
        );
    }
    let table = page.lines().skip_while(|line| !line.starts_with("| fault | at most |")).skip(2);
    let stated = table.take_while(|line| line.starts_with('|')).filter(|line| !line.contains("| – |"));
    assert_eq!(stated.count(), ALL.len() + ELSEWHERE.len(), "a bound is stated that no test asserts");
}

#[test]
fn the_first_page_states_bounds_that_the_tests_assert() {
    let defaults = Times {
        lease: Duration::from_secs(5),
        poll: Duration::from_secs(6),
        call: Duration::from_secs(2),
        steady: Duration::from_secs(10),
        lock: Duration::from_secs(15),
    };
    let text = |late: Duration| match late.subsec_millis() {
        0 => format!("{} s", late.as_secs()),
        ms => format!("{ms} ms"),
    };
    let asserted = ALL.map(|bound| format!("| {} | {} |", bound.fault, text(bound.late(defaults))));
    let asserted: Vec<&str> = asserted.iter().map(String::as_str).chain(ELSEWHERE).collect();
    let page = include_str!("../../../../README.md");
    let table = page.lines().skip_while(|line| !line.starts_with("| fault | late by at most |")).skip(2);
    let rows: Vec<&str> = table.take_while(|line| line.starts_with('|')).collect();
    assert!(rows.len() > 5, "README.md has no table of bounds: {rows:?}");
    let wrong: Vec<_> = rows.iter().filter(|row| !asserted.contains(row)).collect();
    assert!(wrong.is_empty(), "README.md states bounds that no test asserts with the defaults: {wrong:#?}");
}
