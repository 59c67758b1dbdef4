//! The way past a Redis that cannot be used: what was to be done goes to the spool, and what comes later for the same
//! message goes behind it.

use super::{GroupTally, Producer};
use crate::clock;
use crate::error::Error;
use delayq_core::fate::Fate;
use delayq_core::id::Group;
use delayq_core::spool::{GroupChange, GroupRecord, Spool, SpoolRecord};

// === impl Producer ===

impl Producer {
    /// Carries out writes in the order of the spool: those whose message has a record waiting there go behind it, the
    /// others to Redis by `write`, unless it is known to be silent, and what Redis cannot take to the spool. One answer
    /// each, in order; `spooled` is that of those in the spool.
    pub(super) async fn in_order<T, W: Future<Output = Vec<Result<T, Error>>>>(
        &self,
        count: usize,
        record: impl Fn(usize) -> SpoolRecord,
        write: impl FnOnce(Vec<usize>) -> W,
        spooled: impl Fn(usize) -> T,
    ) -> Vec<Result<T, Error>> {
        let outage = self.circuit.outage();
        let behind = match self.spool_that_may_hold() {
            // All of it goes to the spool, whatever waits there.
            _ if outage.is_some() => vec![Ok(false); count],
            None => vec![Ok(false); count],
            Some(spool) => spool.append_behind((0..count).map(&record).collect()).await,
        };
        let open: Vec<usize> = (0..count).filter(|&i| behind[i] == Ok(false)).collect();
        let mut written = match outage {
            _ if open.is_empty() => Vec::new(),
            Some(outage) => open.iter().map(|_| Err(outage.clone())).collect(),
            None => write(open.clone()).await,
        };
        self.spool_outages(&open, &mut written, record, &spooled).await;
        let mut written = written.into_iter();
        let answer = |(i, behind)| match behind {
            Ok(true) => Ok(spooled(i)),
            Ok(false) => written.next().expect("one answer for each write"),
            // What cannot go behind an older write must not overtake it either.
            Err(refusal) => Err(Error::Spool { refusal, outage: None }),
        };
        behind.into_iter().enumerate().map(answer).collect()
    }

    /// Hands what an outage kept from Redis to the spool, if there is one.
    async fn spool_outages<T>(
        &self,
        items: &[usize],
        answers: &mut [Result<T, Error>],
        record: impl Fn(usize) -> SpoolRecord,
        spooled: impl Fn(usize) -> T,
    ) {
        let Some(spool) = &self.spool else { return };
        let outages: Vec<(usize, &mut Result<T, Error>, Error)> = items
            .iter()
            .zip(answers)
            .filter_map(|(&i, answer)| {
                let outage = answer.as_ref().err().filter(|error| error.is_outage())?.clone();
                Some((i, answer, outage))
            })
            .collect();
        outages.iter().for_each(|(_, _, outage)| self.circuit.note(outage));
        if outages.is_empty() {
            return;
        }
        let records = outages.iter().map(|(i, _, outage)| SpoolRecord { fate: outage.fate(), ..record(*i) });
        let taken = spool.append(records.collect()).await;
        if let Some(refusal) = taken.iter().find_map(|taken| taken.as_ref().err()) {
            let refused = taken.iter().filter(|taken| taken.is_err()).count();
            tracing::error!(%refusal, refused, "the spool does not take what Redis cannot");
        }
        for ((i, answer, outage), taken) in outages.into_iter().zip(taken) {
            *answer = match taken {
                Ok(()) => Ok(spooled(i)),
                Err(refusal) => Err(Error::Spool { refusal, outage: Some(Box::new(outage)) }),
            };
        }
    }

    /// Changes a whole group in the order of the spool, as [`Self::in_order`] writes messages.
    pub(super) async fn group_in_order(
        &self,
        group: &Group,
        change: GroupChange,
        write: impl Future<Output = Result<GroupTally, Error>>,
    ) -> Result<GroupTally, Error> {
        let spooled = GroupTally { spooled: true, ..GroupTally::default() };
        let record =
            GroupRecord { group: group.clone(), tried_at: clock::now(), fate: Fate::NotApplied, change };
        let answer = match (self.circuit.outage(), self.spool_that_may_hold()) {
            (Some(outage), _) => Err(outage),
            (None, None) => write.await,
            (None, Some(spool)) => match spool.append_group(record.clone(), true).await {
                Ok(true) => return Ok(spooled),
                Ok(false) => write.await,
                Err(refusal) => return Err(Error::Spool { refusal, outage: None }),
            },
        };
        let (Err(outage), Some(spool)) = (&answer, &self.spool) else { return answer };
        if !outage.is_outage() {
            return answer;
        }
        self.circuit.note(outage);
        let record = GroupRecord { fate: outage.fate(), ..record };
        spool.append_group(record, false).await.map(|_| spooled).map_err(|refusal| {
            tracing::error!(%refusal, "the spool does not take what Redis cannot");
            Error::Spool { refusal, outage: Some(Box::new(outage.clone())) }
        })
    }

    fn spool_that_may_hold(&self) -> Option<&dyn Spool> {
        self.spool.as_deref().filter(|spool| spool.may_hold())
    }
}
