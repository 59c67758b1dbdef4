//! Carrying out the rows of a turn, and what became of each.

use super::row::Row;
use super::store::Verdict;
use crate::outcome::Settle;
use crate::resting::Resting;
use crate::writes::{Carrier, Write};

const BEHIND: &str = "an older row of its message rests";
/// A reason has at most so many characters, for it has to fit into a column.
const REASON: usize = 1000;

/// What became of each row, and why Redis could not be used, if so; `resting`: they rested before, and may have been carried
/// out.
pub(super) async fn carry_out(
    carrier: &mut Carrier,
    rows: Vec<Row>,
    resting: bool,
) -> (Vec<Verdict>, Option<String>) {
    let mut verdicts = vec![Verdict::Untried; rows.len()];
    let (mut places, mut asked) = (Vec::with_capacity(rows.len()), Vec::with_capacity(rows.len()));
    for (place, row) in rows.into_iter().enumerate() {
        match read(row, resting) {
            Ok(write) => {
                places.push(place);
                asked.push(write);
            }
            Err(verdict) => verdicts[place] = verdict,
        }
    }
    let mut held = None;
    let settled = carrier.carry_out(&mut Resting::default(), &asked).await;
    for (place, settle) in places.into_iter().zip(settled) {
        verdicts[place] = match settle {
            Settle::Done => Verdict::Done,
            Settle::Reject(reason) => Verdict::Rejected(short(reason)),
            Settle::Rest(_, why) => Verdict::Rests(short(why)),
            // Nothing ended the batch before it: it rests behind a row of its message.
            Settle::Untried if held.is_none() => Verdict::Rests(BEHIND.to_owned()),
            Settle::Untried => Verdict::Untried,
            Settle::Hold(_, why) => {
                held.get_or_insert(why);
                Verdict::Untried
            }
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
    (verdicts, held)
}

/// The write of a row, unless it is to rest or cannot be one.
fn read(row: Row, resting: bool) -> Result<Write, Verdict> {
    if row.is_behind {
        return Err(Verdict::Rests(BEHIND.to_owned()));
    }
    let rejected = |reason| Verdict::Rejected(short(reason));
    let record = row.record(delayq_service::host_now()).map_err(rejected)?;
    Ok(Write { record, tried: None, is_first: !resting })
}

fn short(mut reason: String) -> String {
    if let Some((end, _)) = reason.char_indices().nth(REASON) {
        reason.truncate(end);
    }
    reason
}
