//! The way around an unusable Redis: writes go to the spool, followed by later writes to the same messages.

use super::under_way::Named;
use super::{GroupTally, Producer};
use crate::clock;
use crate::error::Error;
use delayq_core::fate::Fate;
use delayq_core::members::Members;
use delayq_core::spool::{GroupChange, GroupRecord, Spool, SpoolRecord, SpoolRefusal};
use std::sync::Arc;

// === impl Producer ===

impl Producer {
    /// Carries out writes in the order of the spool, after earlier writes to the same messages. If a record of the
    /// message waits in the spool, the write goes behind that record. Other writes go to Redis by `write`, unless the
    /// node is known to be silent, and writes that Redis cannot take go to the spool. Returns one answer for each
    /// write, in order; `spooled` makes the answer of a spooled write.
    pub(super) async fn in_order<'m, T, W: Future<Output = Vec<Result<T, Error>>>>(
        &self,
        names: impl ExactSizeIterator<Item = Named<'m>> + Clone,
        record: impl Fn(usize) -> SpoolRecord,
        write: impl FnOnce(Vec<usize>) -> W,
        spooled: impl Fn(usize) -> T,
    ) -> Vec<Result<T, Error>> {
        let count = names.len();
        self.under_way.of_messages(names.clone()).await;
        let mut answers = self.outages(names);
        // Writes to a silent node go to the spool, whatever waits there.
        let mut open: Vec<usize> = (0..count).filter(|&i| answers[i].is_none()).collect();
        if !open.is_empty()
            && let Some(spool) = self.spool_that_may_hold()
        {
            let behind = spool.append_behind(open.iter().map(|&i| record(i)).collect()).await;
            for (&i, behind) in open.iter().zip(behind) {
                answers[i] = match behind {
                    Ok(false) => None,
                    Ok(true) => Some(Ok(spooled(i))),
                    // A write that cannot go behind an older write must not overtake the older write either.
                    Err(refusal) => Some(Err(Arc::new(Error::Spool { refusal, outage: None }))),
                };
            }
            open.retain(|&i| answers[i].is_none());
        }
        let written = if open.is_empty() { Vec::new() } else { write(open.clone()).await };
        open.into_iter().zip(written).for_each(|(i, answer)| answers[i] = Some(answer.map_err(Arc::new)));
        let answered = |answer: Option<_>| answer.expect("every item was refused or written");
        let mut answers: Vec<Result<T, Arc<Error>>> = answers.into_iter().map(answered).collect();
        self.spool_outages(&mut answers, &record, &spooled).await;
        answers.into_iter().map(|answer| answer.map_err(Arc::unwrap_or_clone)).collect()
    }

    /// Errors of writes to nodes that are known to be silent.
    fn outages<'m, T>(&self, names: impl Iterator<Item = Named<'m>>) -> Vec<Option<Result<T, Arc<Error>>>> {
        let outages = self.silence.outages();
        let layout = self.client.calls.known().layout;
        let outage = |(id, group)| {
            layout.placement_of(id, group).newest_first().find_map(|shard| outages.of(shard)).cloned()
        };
        names.map(|name| if outages.is_none() { None } else { outage(name).map(Err) }).collect()
    }

    /// After an outage, or after an error that an operator can mend.
    async fn spool_outages<T>(
        &self,
        answers: &mut [Result<T, Arc<Error>>],
        record: impl Fn(usize) -> SpoolRecord,
        spooled: impl Fn(usize) -> T,
    ) {
        let Some(spool) = &self.spool else { return };
        let outage = |(i, answer): (usize, &Result<T, Arc<Error>>)| {
            let may_pass = |error: &&Arc<Error>| error.is_outage() || error.is_mended_by_operator();
            let outage = answer.as_ref().err().filter(may_pass)?;
            Some((i, Arc::clone(outage)))
        };
        let outages: Vec<(usize, Arc<Error>)> = answers.iter().enumerate().filter_map(outage).collect();
        if outages.is_empty() {
            return;
        }
        let record = |(i, outage): &(usize, Arc<Error>)| SpoolRecord { fate: outage.fate(), ..record(*i) };
        let taken = self.append(spool, outages.iter().map(record).collect()).await;
        if let Some(refusal) = taken.iter().find_map(|taken| taken.as_ref().err()) {
            let refused = taken.iter().filter(|taken| taken.is_err()).count();
            tracing::error!(%refusal, refused, "the spool refused writes that Redis cannot store");
        }
        for ((i, outage), taken) in outages.into_iter().zip(taken) {
            let refused =
                |refusal| Error::Spool { refusal, outage: Some(Box::new(Arc::unwrap_or_clone(outage))) };
            answers[i] = taken.map(|()| spooled(i)).map_err(|refusal| Arc::new(refused(refusal)));
        }
    }

    /// Appends records, even if the caller gives up meanwhile: later writes to these messages wait for the append.
    async fn append(
        &self,
        spool: &Arc<dyn Spool>,
        records: Vec<SpoolRecord>,
    ) -> Vec<Result<(), SpoolRefusal>> {
        let count = records.len();
        let named = records.iter().map(|record| (&record.target.id, record.target.group.as_ref()));
        let (spool, ticket) = (Arc::clone(spool), self.under_way.begin(named));
        let appended = finished(async move {
            let taken = spool.append(records).await;
            drop(ticket);
            taken
        });
        appended.await.unwrap_or_else(|refusal| vec![Err(refusal); count])
    }

    /// Changes a group in the order of the spool, as [`Self::in_order`] writes messages.
    pub(super) async fn group_in_order(
        &self,
        members: &Members,
        change: GroupChange,
        write: impl Future<Output = Result<GroupTally, Error>>,
    ) -> Result<GroupTally, Error> {
        let Members { group, topic } = members;
        self.under_way.of_group(group).await;
        let spooled = GroupTally { spooled: true, ..GroupTally::default() };
        let began = clock::instant();
        let record = |fate| GroupRecord {
            group: group.clone(),
            topic: topic.clone(),
            tried_at: clock::wall_time_of(began),
            fate,
            change: change.clone(),
        };
        let places = self.client.calls.known().layout.placement(group.as_str());
        let outage = places.newest_first().find_map(|place| self.silence.outage(place));
        let answer = match (outage, self.spool_that_may_hold()) {
            (Some(outage), _) => Err(outage),
            (None, None) => write.await,
            (None, Some(spool)) => match spool.append_group(record(Fate::NotApplied), true).await {
                Ok(true) => return Ok(spooled),
                Ok(false) => write.await,
                Err(refusal) => return Err(Error::Spool { refusal, outage: None }),
            },
        };
        let Some(outage) = answer.as_ref().err().filter(|error| error.is_outage()) else { return answer };
        let Some(spool) = &self.spool else { return answer };
        let (spool, ticket) = (Arc::clone(spool), self.under_way.begin_change(group));
        let record = record(outage.fate());
        // Continues even if the caller gives up meanwhile: later writes to the group wait for the append.
        let appended = finished(async move {
            let taken = spool.append_group(record, false).await;
            drop(ticket);
            taken
        });
        appended.await.unwrap_or_else(Err).map(|_| spooled).map_err(|refusal| {
            tracing::error!(%refusal, "the spool refused writes that Redis cannot store");
            Error::Spool { refusal, outage: Some(Box::new(outage.clone())) }
        })
    }

    fn spool_that_may_hold(&self) -> Option<&dyn Spool> {
        self.spool.as_deref().filter(|spool| spool.may_hold())
    }
}

/// Continues even if the caller gives up.
async fn finished<T: Send + 'static>(
    work: impl Future<Output = T> + Send + 'static,
) -> Result<T, SpoolRefusal> {
    let ended = |_| SpoolRefusal { fate: Fate::Unknown, why: "the producer's runtime ended".to_owned() };
    tokio::spawn(work).await.map_err(ended)
}
