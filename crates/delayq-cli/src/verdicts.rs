//! What `doctor` and `check` make of a fact: one verdict.

use crate::output::Judgement;
use delayq::admin::ServerFacts;

/// etcd does not answer, or takes no writes: timers keep the shards that they own, and rescue those of a timer that ends.
pub const SILENT_ETCD: Judgement = Judgement::Warning;
/// Until the next plan names a timer for these shards, other timers rescue what is overdue, which has a verdict of its own.
pub const UNPLANNED_SHARDS: Judgement = Judgement::Warning;

/// A Redis with less than a tenth of its limit left refuses puts soon.
pub fn of_memory(facts: &ServerFacts) -> Judgement {
    let (used, limit) = (facts.used_memory_bytes, facts.maxmemory_bytes);
    if limit > 0 && used > limit / 10 * 9 { Judgement::Warning } else { Judgement::Good }
}
