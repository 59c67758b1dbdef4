//! Carrying out spooled changes of whole groups.

use crate::outcome::Outcome;
use delayq::spool::{GroupChange, GroupRecord};
use delayq::{Error, Fate, Producer, UnixMillis};
use std::time::Duration;

/// Time for which a shard remembers the progress of a shift, by the token.
const REMEMBERED: Duration = Duration::from_secs(3600);

/// Carries out a change.
///
/// # Errors
/// The change failed.
pub(crate) async fn change(producer: &Producer, record: &GroupRecord) -> Result<Outcome, Error> {
    let tally = match &record.change {
        GroupChange::Cancel => producer.cancel_group(record.members()).await?,
        GroupChange::Shift { .. } if is_forgotten(record, delayq_service::host_now()) => {
            return Ok(Outcome::Reject(
                "stale: part of the group may have been shifted more than an hour ago, and would be shifted \
                 again"
                    .to_owned(),
            ));
        }
        GroupChange::Shift { by, token } => producer.reschedule_group(record.members(), *by, token).await?,
    };
    let busy = || format!("another shift of group {} is under way", record.group);
    Ok(if tally.busy { Outcome::Rest(Fate::Unknown, busy()) } else { Outcome::Done })
}

/// True if an earlier try may have shifted some of the group, and the token is forgotten since.
fn is_forgotten(record: &GroupRecord, now: UnixMillis) -> bool {
    record.fate == Fate::Unknown && now.since(record.tried_at) > REMEMBERED
}

#[cfg(test)]
mod tests {
    use super::*;
    use delayq::{Group, Shift};

    #[test]
    fn only_a_shift_that_may_have_begun_over_an_hour_ago_is_forgotten() {
        let hours = |hours: u64| UnixMillis::new(hours * 3_600_000);
        let change = GroupChange::Shift { by: Shift::from_millis(1), token: "t".to_owned() };
        let group = Group::new("g").unwrap();
        let record = |fate| GroupRecord {
            group: group.clone(),
            topic: None,
            tried_at: hours(1),
            fate,
            change: change.clone(),
        };
        for (fate, now, expected) in [
            (Fate::NotApplied, hours(9), false),
            (Fate::Unknown, hours(2), false),
            (Fate::Unknown, hours(3), true),
        ] {
            assert_eq!(is_forgotten(&record(fate), now), expected, "{fate:?} {now}");
        }
    }
}
