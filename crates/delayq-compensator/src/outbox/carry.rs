//! Carrying out the rows of a turn, and what became of each.

use super::row::Row;
use super::store::Verdict;
use crate::outcome::Settle;
use crate::resting::Resting;
use crate::writes::{Carrier, Write};
use delayq::Target;
use delayq::protocol::RecordId;

const BEHIND: &str = "an older row of its message rests";
/// A reason has at most so many characters, for it has to fit into a column.
const REASON: usize = 1000;

/// What became of rows.
pub(super) struct Carried {
    /// Of each.
    pub(super) verdicts: Vec<Verdict>,
    /// Why Redis could not be used, if so.
    pub(super) held: Option<String>,
    /// What Redis keeps of each until it is settled.
    pub(super) records: Vec<Option<(Target, RecordId)>>,
}

/// Carries out rows; `resting`: they rested before, and may have been carried out.
pub(super) async fn carry_out(carrier: &mut Carrier, rows: Vec<Row>, resting: bool) -> Carried {
    let mut verdicts = vec![Verdict::Untried; rows.len()];
    let mut records = vec![None; rows.len()];
    let (mut places, mut asked) = (Vec::with_capacity(rows.len()), Vec::with_capacity(rows.len()));
    for (place, row) in rows.into_iter().enumerate() {
        match read(row, resting) {
            Ok(write) => {
                records[place] = write.carried();
                places.push(place);
                asked.push(write);
            }
            Err(verdict) => verdicts[place] = verdict,
        }
    }
    let settled = carrier.carry_out(&mut Resting::default(), &asked).await;
    let mut held = settled.iter().find_map(|settle| match settle {
        Settle::Hold(_, why) => Some(why.clone()),
        _ => None,
    });
    for (place, settle) in places.into_iter().zip(settled) {
        verdicts[place] = match settle {
            Settle::Done => Verdict::Done,
            Settle::Reject(reason) => Verdict::Rejected(short(reason)),
            Settle::Rest(_, why) => Verdict::Rests(short(why)),
            // Nothing ended the batch: it rests behind a row of its message.
            Settle::Untried if held.is_none() => Verdict::Rests(BEHIND.to_owned()),
            Settle::Untried | Settle::Hold(..) => Verdict::Untried,
        };
    }
    // Where nothing at all is carried out, it may be the whole Redis.
    let rests = verdicts.iter().any(|verdict| matches!(verdict, Verdict::Rests(_)));
    if held.is_none() && rests && !verdicts.contains(&Verdict::Done) {
        held = carrier.probe().await.err().map(|error| error.to_string());
        if held.is_some() {
            verdicts.fill(Verdict::Untried);
        }
    }
    Carried { verdicts, held, records }
}

/// The write of a row, unless it is to rest or cannot be one.
fn read(row: Row, resting: bool) -> Result<Write, Verdict> {
    if row.is_behind {
        return Err(Verdict::Rests(BEHIND.to_owned()));
    }
    let rejected = |reason| Verdict::Rejected(short(reason));
    let id = Some(row.id());
    let record = row.record(delayq_service::host_now()).map_err(rejected)?;
    Ok(Write { record, id, tried: None, is_first: !resting })
}

fn short(mut reason: String) -> String {
    if let Some((end, _)) = reason.char_indices().nth(REASON) {
        reason.truncate(end);
    }
    reason
}
