//! One step: a batch from the spool to Redis, and what became of each record.
//!
//! ```text
//! batch ─► writes of messages, each under its record ─► Redis ─► note on disk ─► Redis forgets the answers
//!     └──► a change of a group: note that it is tried ─► Redis ─► note on disk ─► what is behind it
//! ```
//! The process may die between any two of these. Redis answers the repeat of a message's write as it answered the first, and
//! changes nothing. It recognises no repeat of a group's change, so what follows one is sent only once its end is noted. What
//! was carried out and could not be noted is kept here until it is.

use crate::outcome::Settle;
use crate::probes::Probes;
use crate::redis_clock::RedisClock;
use crate::resting::Resting;
use crate::writes::{Carrier, Write};
use delayq::protocol::RecordId;
use delayq::spool::{AnyRecord, GroupChange, GroupRecord};
use delayq::{Client, Fate, Target, UnixMillis};
use delayq_spool::{Settled, SpoolError, SpoolReader, SpoolStats, Spooled};
use std::collections::HashSet;
use std::mem;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How often some of what rests is tried again before all of it is: one may be mended that is not among those of its cause.
const TRIES_OF_SOME: u32 = 60;

/// Resubmits a spool, one batch a step.
#[derive(Debug)]
pub struct Resubmitter {
    reader: Arc<Mutex<SpoolReader>>,
    carrier: Carrier,
    batch: usize,
    /// Maximum number of records in a step now: fewer after a step that filled the disk.
    max: usize,
    /// Redis was unavailable the last time: it is probed before anything is sent.
    doubtful: bool,
    /// No record waits that is to be dated by Redis's clock, or the spool was told of that clock.
    is_dated: bool,
    /// The number of the last record that was read in this pass over the spool.
    read: u64,
    /// What became of records, and is not noted yet.
    owed: Settled,
    /// What Redis keeps of these until they are noted.
    carried: Vec<(Target, RecordId)>,
    /// Records that were tried, and may have been carried out.
    unknown: HashSet<u64>,
    resting: Resting,
    /// Those of them that are tried again.
    probes: Probes,
    /// How often they were, since all were.
    tries: u32,
    /// It is time to try them again.
    is_time: bool,
    /// A put that has waited for longer is set aside.
    max_age: Option<Duration>,
}

/// What one step did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Records that were sent to Redis.
    pub sent: u64,
    /// Records that were carried out.
    pub resubmitted: u64,
    /// Records that were set aside.
    pub rejected: u64,
    /// Why the others stay in the spool; `None`: none had to.
    pub held: Option<String>,
    /// Whether there was nothing more to read.
    pub at_end: bool,
    /// At the end: how many records rest alone, until [`Resubmitter::begin_again`].
    pub resting: u64,
}

/// What the calls of a step came to.
#[derive(Default)]
struct Tally {
    sent: u64,
    done: u64,
    rejected: u64,
    /// How many rest alone.
    resting: u64,
    held: Option<String>,
}

// === impl Resubmitter ===

impl Resubmitter {
    /// Resubmits to this deployment, at most `batch` records a step.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn new(reader: SpoolReader, client: Client, batch: usize) -> Self {
        let carrier = Carrier::new(client);
        let reader = Arc::new(Mutex::new(reader));
        Self {
            reader,
            carrier,
            batch,
            max: batch,
            doubtful: false,
            is_dated: false,
            read: 0,
            owed: Settled::default(),
            carried: Vec::new(),
            unknown: HashSet::new(),
            resting: Resting::default(),
            probes: Probes::default(),
            tries: 0,
            is_time: false,
            max_age: None,
        }
    }

    /// Sets puts aside that have waited for longer than this.
    #[must_use]
    pub fn max_age(mut self, max_age: Option<Duration>) -> Self {
        self.max_age = max_age;
        self
    }

    /// Begins again with the first record, those that rest alone included.
    pub fn begin_again(&mut self) {
        (self.read, self.resting, self.probes) = (0, Resting::default(), Probes::default());
        (self.tries, self.is_time) = (0, false);
    }

    /// Tries what rests alone again in the next step, ahead of its batch: a few records of each cause. Once one of them can
    /// be carried out, or what waits is not what rested, it begins again with the first record; now and then in any case.
    pub fn try_again(&mut self) {
        self.is_time = true;
    }

    /// Resubmits one batch; a smaller one after a step that filled the disk. A dropped future may have resubmitted some of
    /// it, which is recognised the next time.
    ///
    /// # Errors
    /// The spool cannot be read or written; what was resubmitted is resubmitted again.
    pub async fn run_once(&mut self) -> Result<Report, SpoolError> {
        let result = self.resubmit_next().await;
        if result.is_err() {
            self.begin_again();
        }
        self.max = match result {
            Err(SpoolError::DiskFull { .. }) => self.max.div_ceil(2),
            _ => (2 * self.max).min(self.batch),
        };
        result
    }

    async fn resubmit_next(&mut self) -> Result<Report, SpoolError> {
        self.note().await?;
        let tried = match mem::take(&mut self.is_time) {
            true => self.try_some().await?,
            false => Report::default(),
        };
        if tried.held.is_some() {
            return Ok(tried);
        }
        let next = self.read_on().await?;
        Ok(Report {
            sent: tried.sent + next.sent,
            resubmitted: tried.resubmitted + next.resubmitted,
            rejected: tried.rejected + next.rejected,
            ..next
        })
    }

    /// Resubmits the records behind those that were read.
    async fn read_on(&mut self) -> Result<Report, SpoolError> {
        if !self.doubtful {
            self.dates().await?;
        }
        let (read, max) = (self.read, if self.resting.is_full() { 0 } else { self.max });
        let batch = self.with(move |reader| reader.waiting(read, max)).await?;
        let Some(last) = batch.last().map(|last| last.seq) else {
            let resting = self.resting.count();
            if resting == 0 {
                // What was let wait again has an old number.
                self.begin_again();
                self.unknown.clear();
            }
            return Ok(Report { at_end: true, resting, ..Report::default() });
        };
        let report = self.resubmit(batch).await?;
        match self.doubtful {
            true => self.begin_again(),
            false => self.read = last,
        }
        Ok(report)
    }

    /// Tries some of what rests again.
    async fn try_some(&mut self) -> Result<Report, SpoolError> {
        self.tries += 1;
        let (read, numbers) = (self.read, self.probes.numbers(self.max));
        let look = move |reader: &mut SpoolReader| Ok((reader.count_to(read)?, reader.numbered(&numbers)?));
        let (waiting, some) = self.with(look).await?;
        // What was let wait again has an old number.
        if waiting != self.resting.count() || self.tries > TRIES_OF_SOME {
            self.begin_again();
            return Ok(Report::default());
        }
        let (resting, probes) = (mem::take(&mut self.resting), mem::take(&mut self.probes));
        let report = self.resubmit(some).await?;
        match self.doubtful || report.resubmitted + report.rejected > 0 {
            true => self.begin_again(),
            false => (self.resting, self.probes) = (resting, probes),
        }
        Ok(report)
    }

    /// Resubmits records, unless Redis is still unavailable.
    async fn resubmit(&mut self, batch: Vec<Spooled>) -> Result<Report, SpoolError> {
        if self.doubtful
            && let Err(error) = self.carrier.probe().await
        {
            return Ok(Report { held: Some(error.to_string()), ..Report::default() });
        }
        if self.doubtful && self.dates().await? {
            // The batch was dated without that clock: read it again.
            return Ok(Report::default());
        }
        let mut tally = self.tally(batch).await?;
        // Where nothing at all is carried out, it may be the whole Redis.
        if tally.done == 0 && tally.resting > 0 && tally.held.is_none() {
            tally.held = self.carrier.probe().await.err().map(|error| error.to_string());
        }
        self.doubtful = tally.held.is_some();
        self.note().await?;
        let Tally { sent, done, rejected, held, .. } = tally;
        Ok(Report { sent, resubmitted: done, rejected, held, ..Report::default() })
    }

    /// Tells the spool of Redis's clock, where records of an earlier boot wait. Returns whether this was new.
    async fn dates(&mut self) -> Result<bool, SpoolError> {
        if self.is_dated {
            return Ok(false);
        }
        // What is appended from now on is of this boot.
        let spans_boots = self.with(|reader| reader.spans_boots()).await?;
        self.is_dated = !spans_boots || self.clock().tell().await;
        Ok(spans_boots && self.is_dated)
    }

    /// Tells the spool of Redis's clock, from another task.
    pub(crate) fn clock(&self) -> RedisClock {
        RedisClock::new(self.carrier.client().clone(), Arc::clone(&self.reader))
    }

    /// Why a record rests alone; `None`: none does.
    pub fn resting(&self) -> Option<&str> {
        self.resting.why()
    }

    /// Whether producers have appended since the last call; true at the first.
    ///
    /// # Errors
    /// The spool cannot be read.
    pub async fn has_changed(&self) -> Result<bool, SpoolError> {
        self.with(SpoolReader::has_changed).await
    }

    /// The books of the spool alone.
    ///
    /// # Errors
    /// The spool cannot be read.
    pub async fn books(&self) -> Result<SpoolStats, SpoolError> {
        self.with(|reader| reader.books()).await
    }

    /// The books of the spool, with what waits counted.
    ///
    /// # Errors
    /// The spool cannot be read.
    pub async fn stats(&self) -> Result<SpoolStats, SpoolError> {
        self.with(|reader| reader.stats()).await
    }

    /// Why the folder of the spool has other files than those that are read; `None`: it has these.
    ///
    /// # Errors
    /// The spool's thread is gone.
    pub async fn has_moved(&self) -> Result<Option<SpoolError>, SpoolError> {
        self.with(|reader| Ok(reader.has_moved())).await
    }

    /// Reads what the folder has now, once nothing waits in the files that are read.
    ///
    /// # Errors
    /// Why not: it goes on with these files.
    pub async fn follow_folder(&mut self) -> Result<(), SpoolError> {
        self.with(SpoolReader::follow_folder).await?;
        self.begin_again();
        Ok(())
    }

    /// Returns unused space to the disk.
    ///
    /// # Errors
    /// The spool keeps its size.
    pub async fn shrink(&self) -> Result<(), SpoolError> {
        self.with(|reader| reader.shrink()).await
    }

    /// The record, unless it is set aside for its age. Puts alone are: a message whose cancel was set aside would be
    /// delivered. When a record was spooled may be unreadable: 0.
    fn young_enough(
        &self,
        record: AnyRecord,
        spooled_at: UnixMillis,
        now: UnixMillis,
    ) -> Result<AnyRecord, String> {
        let max = self.max_age.filter(|&max| spooled_at.get() > 0 && now.since(spooled_at) > max);
        match (max, record.message().filter(|record| record.verb() == "put")) {
            (Some(max), Some(put)) => {
                let stored = if put.fate == Fate::Unknown { ", and may be stored already" } else { "" };
                Err(format!("it has waited for longer than {max:?}{stored}"))
            }
            _ => Ok(record),
        }
    }

    async fn tally(&mut self, batch: Vec<Spooled>) -> Result<Tally, SpoolError> {
        let (mut tally, mut writes) = (Tally::default(), Vec::new());
        let now = delayq_service::host_now();
        for Spooled { seq, spooled_at, id, record } in batch {
            match record.and_then(|record| self.young_enough(record, spooled_at, now)) {
                Err(why) => self.settle(&mut tally, seq, Settle::Reject(why)),
                Ok(AnyRecord::Message(record)) => {
                    let mut write = Write::new(record, Some(id), None);
                    write.is_first &= !self.unknown.contains(&seq);
                    writes.push((seq, write));
                }
                Ok(AnyRecord::Group(record)) => {
                    self.carry_out(mem::take(&mut writes), &mut tally).await;
                    self.change(seq, &record, &mut tally).await?;
                }
            }
        }
        self.carry_out(writes, &mut tally).await;
        Ok(tally)
    }

    async fn carry_out(&mut self, part: Vec<(u64, Write)>, tally: &mut Tally) {
        if tally.held.is_some() || part.is_empty() {
            return;
        }
        let (numbers, writes): (Vec<u64>, Vec<Write>) = part.into_iter().unzip();
        let settled = self.carrier.carry_out(&mut self.resting, &writes.iter().collect::<Vec<_>>()).await;
        for ((seq, write), settle) in numbers.into_iter().zip(&writes).zip(settled) {
            if let Settle::Hold(Fate::Unknown, _) | Settle::Rest(Fate::Unknown, _) = settle {
                self.unknown.insert(seq);
            }
            match &settle {
                Settle::Rest(_, why) => self.probes.note(seq, Some(&write.record.topic), why),
                Settle::Done | Settle::Reject(_) => self.carried.extend(write.carried()),
                Settle::Hold(..) | Settle::Untried => {}
            }
            self.settle(tally, seq, settle);
        }
    }

    async fn change(&mut self, seq: u64, record: &GroupRecord, tally: &mut Tally) -> Result<(), SpoolError> {
        if tally.held.is_some() || self.resting.holds_group(&record.group) {
            return Ok(());
        }
        // A cancel of a group may be repeated for as long as nothing behind it was sent.
        let is_first = record.fate == Fate::NotApplied && matches!(record.change, GroupChange::Shift { .. });
        if is_first {
            self.with(move |reader| reader.note_fate(seq, Fate::Unknown)).await?;
        }
        let settle = self.carrier.change(&mut self.resting, record).await;
        if let Settle::Rest(_, why) = &settle {
            self.probes.note(seq, None, why);
        }
        let not_applied =
            matches!(settle, Settle::Hold(Fate::NotApplied, _) | Settle::Rest(Fate::NotApplied, _));
        self.settle(tally, seq, settle);
        self.note().await?;
        if is_first && not_applied {
            self.with(move |reader| reader.note_fate(seq, Fate::NotApplied)).await?;
        }
        Ok(())
    }

    /// Keeps what became of a record, to be noted.
    fn settle(&mut self, tally: &mut Tally, seq: u64, settle: Settle) {
        tally.sent += u64::from(settle != Settle::Untried);
        match settle {
            Settle::Done => {
                tally.done += 1;
                self.owed.done.push(seq);
            }
            Settle::Reject(reason) => {
                tracing::error!(seq, reason, "a spooled record is rejected and set aside");
                tally.rejected += 1;
                self.owed.rejected.push((seq, reason));
            }
            Settle::Hold(_, why) => drop(tally.held.get_or_insert(why)),
            Settle::Rest(..) => tally.resting += 1,
            Settle::Untried => {}
        }
    }

    /// Notes what is owed, and has Redis forget its answers then.
    async fn note(&mut self) -> Result<(), SpoolError> {
        if self.owed.is_empty() {
            return Ok(());
        }
        // Ranges are removed faster.
        self.owed.done.sort_unstable();
        let owed = self.owed.clone();
        self.with(move |reader| reader.note(&owed)).await?;
        self.owed = Settled::default();
        self.carrier.settled(&mem::take(&mut self.carried)).await;
        Ok(())
    }

    /// Works with the reader on a thread that may block.
    async fn with<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut SpoolReader) -> Result<T, SpoolError> + Send + 'static,
    ) -> Result<T, SpoolError> {
        let reader = Arc::clone(&self.reader);
        let worked = tokio::task::spawn_blocking(move || {
            // The database has rolled back what a panic left half done.
            work(&mut reader.lock().unwrap_or_else(PoisonError::into_inner))
        });
        worked.await.map_err(|_| SpoolError::Closed)?
    }
}
