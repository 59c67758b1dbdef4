//! The state of a timer, in a word.

use delayq_cluster::MemberInfo;

/// The state of a member that pumps this many shards, in a word.
pub(super) fn state(member: &MemberInfo, pumped: usize) -> &'static str {
    match member {
        MemberInfo { draining: true, .. } => "stopping",
        MemberInfo { drained: true, .. } if pumped > 0 => "draining",
        MemberInfo { drained: true, .. } => "drained",
        MemberInfo { hindered: 1.., .. } => "hindered",
        MemberInfo { leader: true, .. } => "leads",
        MemberInfo { planned: 0, .. } if pumped == 0 => "spare",
        _ => "serves",
    }
}
